"""The tokens of an episode: which of them the model wrote, and how turns become some."""

from __future__ import annotations

from typing import Any


__all__ = ["Chat", "Talk"]

_MARK = "openenv-gym-was-here"


class Chat:
    """Turns of a conversation as tokens, by the trainer's chat template.

    Attributes:
        longest: How many tokens may follow the prompt.
    """

    def __init__(self, trainer: Any) -> None:
        self._tokenizer = trainer.processing_class
        self._template = getattr(trainer, "chat_template", None)
        self._options = dict(getattr(trainer, "chat_template_kwargs", None) or {})
        self.longest = trainer.max_completion_length
        self._is_chat = True

    def begin(self, prompt: Any, seen: str) -> list[int]:
        """Return the tokens of a prompt, with what the environment says first."""
        if isinstance(prompt, str):
            self._is_chat = False
            return self._ids(f"{prompt}{seen}")
        messages = [*prompt[:-1], {**prompt[-1], "content": f"{prompt[-1]['content']}{seen}"}]
        return self._ids(self._render(messages, True))

    def between(self, said: list[int], seen: str) -> list[int]:
        """Return the tokens between a reply and the next one."""
        if not self._is_chat:
            return self._ids(f"\n{seen}\n")
        messages = [
            {"role": "user", "content": "-"},
            {"role": "assistant", "content": _MARK},
            {"role": "user", "content": seen},
        ]
        after = self._render(messages, True).rpartition(_MARK)[2]
        end = self._tokenizer.eos_token
        if end and said and said[-1] == self._tokenizer.eos_token_id:
            after = after.removeprefix(end)  # the model has written it itself
        return self._ids(after)

    def text(self, ids: list[int]) -> str:
        """Return what the model said."""
        return str(self._tokenizer.decode(ids, skip_special_tokens=True)).strip()

    def _render(self, messages: list[Any], generate: bool) -> str:
        rendered: str = self._tokenizer.apply_chat_template(
            messages,
            tokenize=False,
            add_generation_prompt=generate,
            chat_template=self._template,
            **self._options,
        )
        return rendered

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids


class Talk:
    """The tokens of one episode, and which of them the model wrote."""

    def __init__(self, prompt_ids: list[int]) -> None:
        self.prompt_ids = prompt_ids
        self.completion_ids: list[int] = []
        self.mask: list[int] = []
        self.logprobs: list[float] | None = []

    @property
    def all_ids(self) -> list[int]:
        """Everything so far: what the next reply is generated from."""
        return self.prompt_ids + self.completion_ids

    def say(self, ids: list[int], logprobs: list[float] | None) -> None:
        """Add what the model wrote."""
        self._add(ids, 1, logprobs)

    def hear(self, chat: Chat, text: str) -> bool:
        """Add what the environment says; False where there is no room for it and a reply."""
        ids = chat.between(self.completion_ids, text)
        if len(self.completion_ids) + len(ids) >= chat.longest:
            return False
        self._add(ids, 0, None if self.logprobs is None else [0.0] * len(ids))
        return True

    def _add(self, ids: list[int], mask: int, logprobs: list[float] | None) -> None:
        self.completion_ids += ids
        self.mask += [mask] * len(ids)
        if logprobs is None or self.logprobs is None:
            self.logprobs = None
        else:
            self.logprobs += logprobs
