"""Recordings: what environments did, in a file; read, played and scored again, looked at.

The format and its reasons are in ``docs/recording.md``.

=================================== ==========================================================
`wrappers`, `describing`            what goes into a file, and what is told of the environment
`writer`, `snapshots`, `appending`  rows to chunks of a file, by a thread of its own
`columns`, `format`                 rows to columns to bytes, and back
`chunks`, `reader`, `episodes`      a file, read as far as somebody asks
`making`, `replaying`, `comparing`  the environment made and played again
`rescoring`                         rewards anew, without the environment
`page`, `minari`                    an episode as a page; a file as a dataset of Minari's
=================================== ==========================================================
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from openenv_gym.recording.reader import Episodes, Reset, RolloutFile, Step
from openenv_gym.recording.reader import open_rollout as open
from openenv_gym.recording.wrappers import RecordRollout, RecordVectorRollout
from openenv_gym.recording.writer import Limits, RolloutWriter


if TYPE_CHECKING:
    from openenv_gym.recording.minari import to_minari
    from openenv_gym.recording.page import write_page
    from openenv_gym.recording.replaying import Difference, ReplayResult, replay
    from openenv_gym.recording.rescoring import Rescored, Score, rescore

__all__ = [
    "Difference",
    "Episodes",
    "Limits",
    "RecordRollout",
    "RecordVectorRollout",
    "ReplayResult",
    "Rescored",
    "Reset",
    "RolloutFile",
    "RolloutWriter",
    "Score",
    "Step",
    "open",
    "replay",
    "rescore",
    "to_minari",
    "write_page",
]

# What a recorder does not need.
_HOMES = {
    "Difference": "replaying",
    "ReplayResult": "replaying",
    "replay": "replaying",
    "Rescored": "rescoring",
    "Score": "rescoring",
    "rescore": "rescoring",
    "to_minari": "minari",
    "write_page": "page",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
