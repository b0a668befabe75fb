"""Keyword arguments of ``gymnasium.make("openenv/Chess-v0", ...)``, with defaults and checks."""

# No `from __future__ import annotations`: Pydantic needs the annotations themselves.

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from chess_env.models import MAX_FEN_LENGTH
from openenv_gym.errors import InvalidOptionError


__all__ = ["ChessOptions", "StartOptions", "parse_options", "parse_start"]

OptionsT = TypeVar("OptionsT", bound="StartOptions")

Positive = Annotated[int, Field(ge=1, le=2**31 - 1)]
Seconds = Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)]

_CLOCKS = 10  # characters by which a position may grow in a game


class StartOptions(BaseModel):
    """How a game begins: what `reset` takes, too."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    fen: str | None = Field(
        default=None,
        max_length=MAX_FEN_LENGTH - _CLOCKS,
        description="where the game begins, in FEN; None: the usual position",
    )
    chess960: Annotated[int, Field(ge=0, le=959)] | Literal["random"] | None = Field(
        default=None, description="number of a starting position of Chess960, or 'random'"
    )
    agent_color: Literal["white", "black", "random"] = Field(
        default="white", description="whom the agent plays"
    )


class ChessOptions(StartOptions):
    """All options."""

    action: Literal["uci", "discrete"] = Field(
        default="uci", description="moves as text, or as numbers of AlphaZero's encoding"
    )
    observation: Literal["fen", "planes"] = Field(
        default="fen", description="positions as text, or as AlphaZero's planes"
    )
    opponent: str = Field(
        default="random",
        min_length=1,
        max_length=4096,
        description="'random', 'self' (the agent plays both sides), 'stockfish', or name or path "
        "of another UCI engine where the server runs",
    )
    max_moves: Positive | None = Field(
        default=500, description="truncate after this many moves of one side; None for never"
    )
    claim_draws: bool = Field(
        default=True, description="threefold repetition and 50 moves end the game by themselves"
    )
    illegal_move: Literal["penalty", "loss"] = Field(
        default="penalty", description="an illegal move costs 0.1, or loses the game"
    )
    skill: Annotated[int, Field(ge=0, le=20)] | None = Field(
        default=None, description="from 0, weak, to 20: how often the engine errs on purpose"
    )
    elo: Positive | None = Field(default=None, description="rating that the engine plays at")
    depth: Annotated[int, Field(ge=1, le=100)] | None = Field(
        default=None, description="half moves that the engine looks ahead"
    )
    nodes: Positive | None = Field(default=None, description="positions that the engine looks at")
    time_s: Seconds | None = Field(default=None, description="seconds that the engine thinks")
    engine_timeout_s: Seconds = Field(
        default=10.0, description="seconds after which an engine that does not answer has failed"
    )
    engine_memory_mb: Annotated[int, Field(ge=64, le=2**20)] = Field(
        default=1024, description="address space that the engine may take, in MiB"
    )

    @property
    def has_engine(self) -> bool:
        """The opponent is a program."""
        return self.opponent not in ("random", "self")


_ENGINE_ONLY = ("skill", "elo", "depth", "nodes", "time_s", "engine_timeout_s", "engine_memory_mb")
_EXCLUSIVE = (("skill", "elo"), ("depth", "nodes", "time_s"), ("fen", "chess960"))


def parse_options(given: Mapping[str, Any]) -> ChessOptions:
    """Check keyword arguments of the environment.

    Args:
        given: The arguments.

    Returns:
        All options, with defaults where none was given.

    Raises:
        InvalidOptionError: One is unknown, has a value that is not taken, or does not go with
            another one; ``field`` names it.
    """
    options = _parse(ChessOptions, given)
    for names in _EXCLUSIVE:
        chosen = [name for name in names if getattr(options, name) is not None]
        if len(chosen) > 1:
            raise InvalidOptionError(
                f"{chosen[1]}={given[chosen[1]]!r:.80}: expected at most one of "
                f"{', '.join(names)}, and {chosen[0]} is given, too.",
                field=chosen[1],
                hint="Leave out one of them.",
            )
    if not options.has_engine:
        for name in _ENGINE_ONLY:
            if name in options.model_fields_set and given[name] is not None:
                raise InvalidOptionError(
                    f"{name}={given[name]!r:.80}: expected nothing, since the opponent "
                    f"{options.opponent!r} is no engine.",
                    field=name,
                    hint="Leave it out, or choose an engine: opponent='stockfish'.",
                )
    _check_color(options, options.opponent)
    return options


def parse_start(options: ChessOptions, given: Mapping[str, Any]) -> StartOptions:
    """Check what `reset` is given, which takes the place of what the environment was made with.

    Args:
        options: The environment's own.
        given: Some of ``fen``, ``chess960`` and ``agent_color``; one that is None counts as not
            given.

    Returns:
        How the game is to begin.

    Raises:
        InvalidOptionError: As `parse_options`.
    """
    known = {name: value for name, value in given.items() if value is not None}
    chosen = _parse(StartOptions, known)
    if chosen.fen is not None and chosen.chess960 is not None:
        raise InvalidOptionError(
            "chess960 and fen both say where the game begins.",
            field="chess960",
            hint="Leave out one of them.",
        )
    names = set(known)
    if names & {"fen", "chess960"}:
        names |= {"fen", "chess960"}
    fields = {name: getattr(options, name) for name in StartOptions.model_fields}
    start = StartOptions(**{**fields, **{name: getattr(chosen, name) for name in names}})
    _check_color(start, options.opponent)
    return start


def _check_color(start: StartOptions, opponent: str) -> None:
    if opponent == "self" and start.agent_color != "white":
        raise InvalidOptionError(
            f"agent_color={start.agent_color!r}: expected nothing, since the agent plays both "
            "sides.",
            field="agent_color",
            hint="Leave it out, or choose another opponent.",
        )


def _parse(model: type[OptionsT], given: Mapping[str, Any]) -> OptionsT:
    for name in given:
        if name not in model.model_fields:
            raise _unknown(model, name)
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        name = str(problem["loc"][0])
        message = problem["msg"]
        raise InvalidOptionError(
            f"{name}={given[name]!r:.80}: {message[0].lower()}{message[1:]}.",
            field=name,
            hint=f"The option means: {model.model_fields[name].description}.",
        ) from None


def _unknown(model: type[StartOptions], name: str) -> InvalidOptionError:
    known = sorted(model.model_fields)
    near = difflib.get_close_matches(str(name), known, n=1)
    return InvalidOptionError(
        f"Unknown option {name!r:.80}; there are {', '.join(known)}.",
        field=str(name)[:80],
        hint=f"Did you mean {near[0]!r}?" if near else "Leave it out.",
        data={"options": known},
    )
