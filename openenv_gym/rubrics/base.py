"""`Rubric`: a reward function with a name, parts, hooks and a memory of its last score."""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from openenv_gym.errors import ConfigurationError, RubricError
from openenv_gym.rubrics.waiting import settle


__all__ = ["Rubric", "is_rubric", "to_score"]

Hook = Callable[["Rubric", Any, Any, float], Any]
PreHook = Callable[["Rubric", Any, Any], Any]


class Rubric:
    """Scores a step; subclasses write `forward`.

    ::

        class Brief(Rubric):
            def forward(self, action, observation):
                return 1.0 if len(action.message) < 80 else 0.0

    A rubric that is assigned to an attribute of another one becomes a part of it, under the
    attribute's name. Names and meaning are those of OpenEnv (RFC 004); what differs is in
    ``docs/rubrics.md``.

    Attributes:
        last_score: What the last call returned. The server sets it to None ahead of each step, so
            that None afterwards says that the rubric did not run in that step.
        fallback_reason: Why the last score is one that was declared for when there is none; None
            where it is a score like any other.
        timeout_s: How long the server waits for a rubric that is asynchronous, in seconds; None: as
            long as it takes. The longest of a rubric's and its parts' counts.
        state_fields: Names of the attributes that `state_dict` has.
    """

    state_fields: ClassVar[tuple[str, ...]] = ()
    timeout_s: float | None = 50.0  # less than typed clients wait for a step
    last_score: float | None = None
    fallback_reason: str | None = None

    _rubric_children: dict[str, Rubric]
    _forward_hooks: list[Hook]
    _forward_pre_hooks: list[PreHook]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make the parts that all rubrics have, whether or not ``__init__`` calls its base's."""
        made = super().__new__(cls)
        for name, value in (
            ("_rubric_children", {}),
            ("_forward_hooks", []),
            ("_forward_pre_hooks", []),
        ):
            object.__setattr__(made, name, value)
        return made

    def __init__(self) -> None:  # else any arguments would be taken, as there is a `__new__`
        super().__init__()

    def forward(self, action: Any, observation: Any) -> float | Awaitable[float]:
        """Return the score of one step; may be a coroutine function.

        Args:
            action: What was done: an instance of the environment's action model.
            observation: What came of it, with `done`, `truncated`, `metadata` and the
                environment's own `reward`.

        Returns:
            A finite number.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no `forward`.")

    def __call__(self, action: Any, observation: Any) -> float | Awaitable[float]:
        """Score one step: hooks, `forward`, hooks.

        Returns:
            The score; an awaitable of it where `forward` or a hook is asynchronous.

        Raises:
            RubricError: The score is no finite number.
            Exception: What `forward` or a hook raises.
        """
        return settle(self._score(action, observation))

    def _score(self, action: Any, observation: Any) -> Generator[Any, Any, float]:
        try:
            for pre_hook in tuple(self._forward_pre_hooks):
                yield pre_hook(self, action, observation)
            score = to_score((yield self.forward(action, observation)), type(self).__name__)
            self.last_score = score
            for hook in tuple(self._forward_hooks):
                yield hook(self, action, observation, score)
            return score
        except Exception as error:
            # The innermost rubric is the one to be named; whoever knows the whole tree does that.
            if not hasattr(error, "openenv_rubric"):
                with contextlib.suppress(AttributeError):
                    error.openenv_rubric = self  # type: ignore[attr-defined]
            raise

    def register_forward_hook(self, hook: Hook) -> None:
        """Have ``hook(rubric, action, observation, score)`` called after each `forward`."""
        self._forward_hooks.append(hook)

    def register_forward_pre_hook(self, hook: PreHook) -> None:
        """Have ``hook(rubric, action, observation)`` called ahead of each `forward`."""
        self._forward_pre_hooks.append(hook)

    # -- parts --------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        added = self._is_added(name)
        is_part = is_rubric(value)
        if is_part:
            self._check_part(name, value)
        elif added:
            raise ConfigurationError(
                f"{name}: expected a rubric, as there is one of that name, got {value!r:.80}.",
                field=name,
            )
        was_part = is_rubric(vars(self).get(name))
        if not added:  # else it is found among the parts alone, wherever it is looked for
            object.__setattr__(self, name, value)
        if is_part:
            self._rubric_children[name] = value
        elif was_part:
            self._rubric_children.pop(name, None)

    def __delattr__(self, name: str) -> None:
        if self._is_added(name):
            self._drop(name)
            return
        was_part = is_rubric(vars(self).get(name))
        object.__delattr__(self, name)  # first, as it may be refused
        if was_part:
            self._rubric_children.pop(name, None)

    if not TYPE_CHECKING:  # else a misspelt name would be a rubric to a type checker

        def __getattr__(self, name: str) -> Any:
            """Return a part that a container added."""
            if name in self._rubric_children:
                return self._rubric_children[name]
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.", name=name)

    def _is_added(self, name: str) -> bool:
        """Tell whether a name is that of a part that a container added, and no attribute's."""
        return (
            name in self._rubric_children
            and name not in vars(self)
            and not hasattr(type(self), name)  # `last_score`, or the weights of a sum
        )

    def _add(self, name: str, child: Rubric) -> None:
        """Make a part of a rubric under a name that needs to be no attribute's."""
        self._check_part(name, child)
        self._rubric_children[name] = child
        if is_rubric(vars(self).get(name)):  # one that was assigned before
            object.__delattr__(self, name)

    def _drop(self, name: str) -> None:
        """Take a part away that was added, or assigned."""
        del self._rubric_children[name]
        if is_rubric(vars(self).get(name)):
            object.__delattr__(self, name)

    def _check_part(self, name: str, child: Rubric) -> None:
        if not name or "." in name:
            raise ConfigurationError(
                f"{name!r:.80} is no name of a rubric; expected text without a dot.", field="name"
            )
        if child is self or any(each is self for each in child.rubrics()):
            raise ConfigurationError(
                f"{type(self).__name__} would be a part of itself, as {name!r:.80}.", field=name
            )

    def children(self) -> Iterator[Rubric]:
        """Iterate over the parts."""
        yield from self._rubric_children.values()

    def named_children(self) -> Iterator[tuple[str, Rubric]]:
        """Iterate over the parts with their names."""
        yield from self._rubric_children.items()

    def rubrics(self) -> Iterator[Rubric]:
        """Iterate over the parts and theirs, depth first."""
        for _, rubric in self.named_rubrics():
            yield rubric

    def named_rubrics(self, prefix: str = "") -> Iterator[tuple[str, Rubric]]:
        """Iterate over the parts and theirs with dotted names, depth first."""
        for name, child in self._rubric_children.items():
            full = f"{prefix}.{name}" if prefix else name
            yield full, child
            yield from child.named_rubrics(full)

    def get_rubric(self, path: str) -> Rubric:
        """Return the part with a dotted name.

        Raises:
            KeyError: There is none.
        """
        found = dict(self.named_rubrics())
        if path not in found:
            raise KeyError(f"No rubric {path!r:.80}; there are {', '.join(found) or 'none'}.")
        return found[path]

    # -- state --------------------------------------------------------------------------------

    def reset(self) -> None:
        """Forget the last episode; the parts do, too."""
        for child in self.children():
            child.reset()

    def state_dict(self) -> dict[str, Any]:
        """Return the settings of this rubric and its parts, under dotted names.

        What belongs to an episode, or to a connection, is not among them.
        """
        state = {name: getattr(self, name) for name in self.state_fields}
        for name, child in self.named_children():
            state.update({f"{name}.{key}": value for key, value in child.state_dict().items()})
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take settings over that `state_dict` returned.

        Raises:
            ConfigurationError: A name is missing, or unknown; nothing has changed then. Or a value
                is one that the rubric does not take.
        """
        known = self.state_dict()
        for key in known:
            if key not in state:
                raise ConfigurationError(f"The state has no {key!r:.80}.", field=key)
        for key in state:
            if key not in known:
                raise ConfigurationError(
                    f"The state has {key!r:.80}, which {type(self).__name__} does not know.",
                    field=str(key),
                )
        for name in self.state_fields:
            setattr(self, name, state[name])
        for name, child in self.named_children():
            start = f"{name}."
            child.load_state_dict(
                {key[len(start) :]: value for key, value in state.items() if key.startswith(start)}
            )


def is_rubric(value: Any) -> bool:
    """Tell whether a value is a rubric, of this library or one that has the same methods."""
    return isinstance(value, Rubric) or (
        not inspect.isclass(value)
        and callable(value)
        and all(hasattr(type(value), name) for name in ("forward", "named_rubrics", "reset"))
    )


def to_score(value: Any, name: str) -> float:
    """Return what a rubric returned as a score.

    Args:
        value: A number: Python's, NumPy's, or an array or tensor of no dimensions.
        name: Name of the rubric.

    Raises:
        RubricError: It is no finite number.
    """
    if hasattr(value, "__float__") and getattr(value, "ndim", 0) == 0:
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            score = float(value)
            if math.isfinite(score):
                return score
    raise RubricError(
        f"{name} returned {value!r:.80}, expected a finite number.", data={"type": "ValueError"}
    )
