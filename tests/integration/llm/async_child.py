"""TRL's loop of rollouts in a spawned child, which finds this module by its own name."""

from __future__ import annotations

from typing import Any


def talking_loop() -> Any:
    """Return the loop with a script where it would ask vLLM."""
    from trl.experimental.async_grpo.async_rollout_worker import _AsyncRolloutLoop

    class TalkingLoop(_AsyncRolloutLoop):
        async def _generate_one_turn(self, prompt_ids: list[int]) -> Any:
            call = '<tool_call>{"name": "play", "arguments": {"action": "stand"}}</tool_call>'
            said = self.tokenizer.convert_tokens_to_ids(call)
            ids = [self.eos_token_ids[0]] if said in prompt_ids else [said, self.eos_token_ids[0]]
            return ids, [0.0] * len(ids)

    return TalkingLoop


def run_in_child(kwargs: dict[str, Any], shared: dict[str, Any]) -> None:
    from trl.experimental.async_grpo.async_rollout_worker import _child_main

    _child_main(talking_loop(), kwargs, **shared)
