"""A language model behind any endpoint with OpenAI's API."""

from __future__ import annotations

import asyncio
import atexit
import collections
import contextlib
import importlib
import json
import os
import threading
import urllib.parse
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from openenv_gym.credentials import read_token
from openenv_gym.errors import ConfigurationError, RubricError
from openenv_gym.rubrics.loop import background


if TYPE_CHECKING:
    import openai

__all__ = ["ChatModel", "Replies"]

_NO_KEY = "no-key"  # the client wants one, where the endpoint does not


class ChatModel:
    """One model of one endpoint. What it has open is shared by all of the same endpoint.

    Args:
        model: Name of the model.
        base_url: Address of the endpoint, ``http://host:port/v1``; by default what the `openai`
            package takes: ``OPENAI_BASE_URL``, or OpenAI's own.
        api_key_env: Environment variable that holds the key, or, with ``_FILE`` appended, names a
            file that does. Without either none is sent, unless the endpoint is OpenAI's own.
        concurrency: How many requests may be on their way to this endpoint, those of other judges
            in this process included; more wait for their turn.
        max_retries: How often a request is repeated that failed for a reason that may pass (no
            connection, 408, 409, 429, 5xx), with pauses that grow, or as long as ``Retry-After``
            says.
        parameters: Further fields of the request. ``temperature`` is 0 unless they say otherwise;
            what is None is left out.

    Raises:
        ConfigurationError: `openai` is not installed, or an argument makes no sense.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        concurrency: int = 8,
        max_retries: int = 4,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        if base_url is not None:
            _check_url(base_url)
        for name, value, least in (
            ("concurrency", concurrency, 1),
            ("max_retries", max_retries, 0),
        ):
            if type(value) is not int or value < least:
                raise ConfigurationError(
                    f"{name}={value!r:.40}: expected an integer from {least}.", field=name
                )
        _import_openai()
        self.model = model
        self.base_url = base_url
        self.api_key_env = api_key_env
        self.concurrency = concurrency
        self.max_retries = max_retries
        given = {"temperature": 0, **(parameters or {})}
        self.parameters = {name: value for name, value in given.items() if value is not None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, base_url={self.base_url!r})"

    @property
    def replies(self) -> Replies:
        """What this model said before; shared by all that would ask the same."""
        asked = json.dumps(
            [self.base_url, self.model, self.parameters], sort_keys=True, default=repr
        )
        return _shared.replies(asked)

    async def complete(self, prompt: str, *, system: str | None = None) -> str:
        """Return what the model says.

        Args:
            prompt: The user's message.
            system: The system's.

        Raises:
            RubricError: The endpoint cannot be reached, refuses, or answers in another form.
        """
        asking = background.start(self._complete(prompt, system))
        return await asyncio.wrap_future(asking)

    async def _complete(self, prompt: str, system: str | None) -> str:
        openai = _import_openai()
        client, key = _shared.client(self.base_url, self.api_key_env)
        messages = [{"role": "system", "content": system}] if system is not None else []
        messages.append({"role": "user", "content": prompt})
        ask: Any = client.with_options(max_retries=self.max_retries).chat.completions.create
        try:
            async with _shared.slot(self.base_url, self.concurrency):
                response = await ask(model=self.model, messages=messages, **self.parameters)
        except (openai.OpenAIError, ValueError) as error:  # the latter: what came is no JSON
            cause = f" ({error.__cause__!r})" if error.__cause__ is not None else ""
            raise self._failure(f"{error}{cause}", key) from None
        try:
            content = response.choices[0].message.content
        except (AttributeError, IndexError, TypeError):
            content = None
        if not isinstance(content, str):
            raise self._failure(f"not a chat completion with text: {response!r:.200}", key)
        return content

    def _failure(self, text: str, key: str) -> RubricError:
        # An endpoint may quote the key that it refuses.
        text = text.replace(key, "***")[:1_000]
        return RubricError(f"The model {self.model} did not answer: {text}")


class Replies:
    """Replies by what was asked; the oldest are forgotten.

    Args:
        size: How many are kept.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._kept: collections.OrderedDict[bytes, str] = collections.OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def __deepcopy__(self, memo: dict[int, Any]) -> Replies:
        return self

    def get(self, asked: bytes) -> str | None:
        """Return the reply; None where there is none."""
        with self._lock:
            if asked in self._kept:
                self._kept.move_to_end(asked)
            return self._kept.get(asked)

    def put(self, asked: bytes, reply: str) -> None:
        """Keep a reply."""
        with self._lock:
            self._kept[asked] = reply
            self._kept.move_to_end(asked)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)


class _Slots:
    """How many requests are on their way to an endpoint; used on one loop alone."""

    def __init__(self) -> None:
        self._taken = 0
        self._waiting: list[asyncio.Future[None]] = []

    @contextlib.asynccontextmanager
    async def take(self, limit: int) -> AsyncIterator[None]:
        while self._taken >= limit:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            finally:
                self._waiting.remove(turn)
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1
            for turn in self._waiting:  # each looks for itself: their limits may differ
                if not turn.done():
                    turn.set_result(None)


class _Shared:
    """What all models of an endpoint share, in one process."""

    _REPLIES = 1024

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: dict[tuple[str | None, str], tuple[openai.AsyncOpenAI, str]] = {}
        self._slots: dict[str | None, _Slots] = {}
        self._replies: dict[str, Replies] = {}

    def client(self, base_url: str | None, api_key_env: str) -> tuple[openai.AsyncOpenAI, str]:
        name = (base_url, api_key_env)
        if name not in self._clients:
            key = _key_of(base_url, api_key_env)
            made = _import_openai().AsyncOpenAI(base_url=base_url, api_key=key, timeout=None)
            self._clients[name] = (made, key)
        return self._clients[name]

    def slot(
        self, base_url: str | None, limit: int
    ) -> contextlib.AbstractAsyncContextManager[None]:
        return self._slots.setdefault(base_url, _Slots()).take(limit)

    def replies(self, asked: str) -> Replies:
        with self._lock:
            return self._replies.setdefault(asked, Replies(self._REPLIES))

    def close(self) -> None:
        """Close connections in order, while there is a loop."""
        for client, _ in self._clients.values():
            with contextlib.suppress(Exception):
                background.start(client.close()).result(2.0)


def _import_openai() -> Any:
    try:
        importlib.import_module("openai.resources.chat")  # else it is imported in the first call
        return importlib.import_module("openai")
    except ImportError as error:
        raise ConfigurationError(
            "LLMJudge needs the package openai.", hint="pip install 'openenv-gym[judge]'"
        ) from error


def _check_url(base_url: Any) -> None:
    parts = urllib.parse.urlsplit(base_url) if isinstance(base_url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(
            f"base_url={base_url!r:.80}: expected http://host:port/v1.", field="base_url"
        )
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError(
            "base_url holds credentials.",
            field="base_url",
            hint="Put the key into an environment variable, and name that by api_key_env.",
        )


def _key_of(base_url: str | None, api_key_env: str) -> str:
    if key := os.environ.get(api_key_env):
        return key
    if path := os.environ.get(f"{api_key_env}_FILE"):
        return read_token(path)
    if base_url is None and "OPENAI_BASE_URL" not in os.environ:
        raise ConfigurationError(
            f"There is no key: {api_key_env} is not set.",
            field="api_key_env",
            hint="Set it where the server runs, or name an endpoint by base_url.",
        )
    return _NO_KEY


_shared = _Shared()


def _after_fork() -> None:
    global _shared
    _shared = _Shared()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(lambda: _shared.close())  # before the loop ends, which was registered earlier
