"""Rubrics made of rubrics."""

from __future__ import annotations

import math
import operator
from collections.abc import Awaitable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from openenv_gym.errors import ConfigurationError
from openenv_gym.rubrics.base import Rubric, is_rubric
from openenv_gym.rubrics.checks import finite
from openenv_gym.rubrics.waiting import gather, settle


__all__ = ["Gate", "RubricDict", "RubricList", "Sequential", "WeightedSum"]

_SUM_TOLERANCE = 1e-6


class _Ordered(Rubric):
    """Rubrics with an order.

    It is one of names: what a name stands for is looked up among the parts with each call, as
    another rubric may have been assigned to it.
    """

    _names: list[str]

    def _add_all(self, named: Mapping[str, Rubric]) -> None:
        for name, rubric in named.items():
            self._add(name, _checked(name, rubric))
        self._names = list(named)

    def _in_order(self) -> list[Rubric]:
        return [self._rubric_children[name] for name in self._names]

    def _drop(self, name: str) -> None:
        super()._drop(name)
        self._names.remove(name)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, index: int) -> Rubric:
        return self._in_order()[index]


class Sequential(_Ordered):
    """One rubric after the other; a score of 0 ends it, and is the score.

    The score is the last one's; 1 where there are none.

    Args:
        *rubrics: The rubrics; their names are ``rubric_0``, ``rubric_1``, ...
        **named: Further ones, with names of their own.
    """

    def __init__(self, *rubrics: Rubric, **named: Rubric) -> None:
        self._add_all({**_numbered(rubrics), **named})

    def forward(self, action: Any, observation: Any) -> float | Awaitable[float]:
        """Return the last score, or 0 after the first one that is."""
        return settle(self._run(action, observation))

    def _run(self, action: Any, observation: Any) -> Generator[Any, Any, float]:
        score = 1.0
        for rubric in self._in_order():
            score = yield rubric(action, observation)
            if score == 0.0:
                return 0.0
        return score


class Gate(Rubric):
    """The score of a rubric where it reaches a threshold, otherwise 0.

    Args:
        rubric: The rubric; its name is ``rubric``.
        threshold: The least score that counts.

    Raises:
        ConfigurationError: The threshold is no number.
    """

    state_fields: ClassVar[tuple[str, ...]] = ("threshold",)

    def __init__(self, rubric: Rubric, threshold: float = 1.0) -> None:
        self.rubric = _checked("rubric", rubric)
        self.threshold = threshold

    @property
    def threshold(self) -> float:
        """The least score that counts."""
        return self._threshold

    @threshold.setter
    def threshold(self, value: float) -> None:
        self._threshold = finite("threshold", value)

    def forward(self, action: Any, observation: Any) -> float | Awaitable[float]:
        """Return the score, or 0 where it is below the threshold."""
        return settle(self._run(action, observation))

    def _run(self, action: Any, observation: Any) -> Generator[Any, Any, float]:
        score: float = yield self.rubric(action, observation)
        return score if score >= self._threshold else 0.0


class WeightedSum(_Ordered):
    """The sum of scores, each with a weight. Parts that are asynchronous run together.

    A part may be replaced, by assignment to its name, and not be taken away, as its weight would be
    missing.

    Args:
        rubrics: The rubrics, in a sequence (named ``rubric_0``, ...) or by name.
        weights: One for each, in the same form. They sum to 1.

    Raises:
        ConfigurationError: There are not as many weights as rubrics, or they do not sum to 1.
    """

    state_fields: ClassVar[tuple[str, ...]] = ("weights",)

    def __init__(
        self,
        rubrics: Sequence[Rubric] | Mapping[str, Rubric],
        weights: Sequence[float] | Mapping[str, float],
    ) -> None:
        named = rubrics if isinstance(rubrics, Mapping) else _numbered(rubrics)
        if isinstance(weights, Mapping):
            if weights.keys() != named.keys():
                raise ConfigurationError(
                    f"Expected weights for {', '.join(named)}, got {', '.join(weights)}.",
                    field="weights",
                )
            weights = [weights[name] for name in named]
        self._add_all(named)
        self.weights = list(weights)

    @property
    def weights(self) -> list[float]:
        """The weights, in the order of the rubrics; a copy."""
        return list(self._weights)

    @weights.setter
    def weights(self, value: Sequence[float]) -> None:
        weights = [finite("weights", each) for each in value]
        if len(weights) != len(self._names):
            raise ConfigurationError(
                f"Expected a weight for each of {len(self._names)} rubrics, got {len(weights)}.",
                field="weights",
            )
        if abs(math.fsum(weights) - 1.0) > _SUM_TOLERANCE:
            raise ConfigurationError(
                f"Expected weights that sum to 1, got {math.fsum(weights):g}.", field="weights"
            )
        self._weights = weights

    def forward(self, action: Any, observation: Any) -> float | Awaitable[float]:
        """Return the sum."""
        return settle(self._run(action, observation))

    def _run(self, action: Any, observation: Any) -> Generator[Any, Any, float]:
        scores = yield gather(rubric(action, observation) for rubric in self._in_order())
        return float(sum(map(operator.mul, scores, self._weights)))

    def _drop(self, name: str) -> None:
        raise ConfigurationError(
            f"{name}: a part of a weighted sum cannot be taken away, as its weight would be "
            "missing.",
            field=name,
            hint="Assign another rubric to the name, or make a sum of the others.",
        )


class RubricList(_Ordered):
    """A list of rubrics, for a rubric that chooses among them by itself.

    Args:
        rubrics: The rubrics; their names are ``rubric_0``, ``rubric_1``, ...
    """

    def __init__(self, rubrics: Iterable[Rubric] | None = None) -> None:
        self._names = []
        self.extend(rubrics or ())

    def forward(self, action: Any, observation: Any) -> float:
        """Score nothing: which of the rubrics counts is its owner's to say."""
        raise NotImplementedError("A RubricList has no score of its own; call its members.")

    def append(self, rubric: Rubric) -> None:
        """Add a rubric."""
        # Counted from the last name, as some before it may have been taken away.
        last = int(self._names[-1].rpartition("_")[2]) if self._names else -1
        name = f"rubric_{last + 1}"
        self._add(name, _checked(name, rubric))
        self._names.append(name)

    def extend(self, rubrics: Iterable[Rubric]) -> None:
        """Add several."""
        for rubric in rubrics:
            self.append(rubric)

    def __iter__(self) -> Iterator[Rubric]:
        return iter(self._in_order())


class RubricDict(Rubric):
    """Rubrics by name, for a rubric that chooses among them by itself.

    Args:
        rubrics: The rubrics; a name has no dot.
    """

    def __init__(self, rubrics: Mapping[str, Rubric] | None = None) -> None:
        self.update(rubrics or {})

    def forward(self, action: Any, observation: Any) -> float:
        """Score nothing: which of the rubrics counts is its owner's to say."""
        raise NotImplementedError("A RubricDict has no score of its own; call its members.")

    def __setitem__(self, name: str, rubric: Rubric) -> None:
        self._add(name, _checked(name, rubric))

    def __delitem__(self, name: str) -> None:
        self._drop(name)

    def __getitem__(self, name: str) -> Rubric:
        return self._rubric_children[name]

    def __contains__(self, name: object) -> bool:
        return name in self._rubric_children

    def __len__(self) -> int:
        return len(self._rubric_children)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rubric_children)

    def keys(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._rubric_children)

    def values(self) -> Iterator[Rubric]:
        """Iterate over the rubrics."""
        return iter(self._rubric_children.values())

    def items(self) -> Iterator[tuple[str, Rubric]]:
        """Iterate over both."""
        return iter(self._rubric_children.items())

    def update(self, rubrics: Mapping[str, Rubric]) -> None:
        """Add several."""
        for name, rubric in rubrics.items():
            self[name] = rubric


def _numbered(rubrics: Iterable[Rubric]) -> dict[str, Rubric]:
    return {f"rubric_{index}": rubric for index, rubric in enumerate(rubrics)}


def _checked(name: Any, rubric: Any) -> Rubric:
    if not is_rubric(rubric):
        raise ConfigurationError(f"{name}: expected a rubric, got {rubric!r:.80}.", field=name)
    if not isinstance(name, str) or name.startswith("_"):
        raise ConfigurationError(
            f"{name!r:.80}: expected a name that does not begin with an underscore.",
            field=str(name),
        )
    return rubric  # type: ignore[no-any-return]
