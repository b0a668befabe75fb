"""Says in words where the time of a step goes, and what might be done about it."""

from __future__ import annotations

import os
from collections.abc import Sequence

import gymnasium

from openenv_gym.cli.measuring import Figures
from openenv_gym.registration import CatalogueEntry


__all__ = ["findings", "shares", "show_seconds"]

_MOST = 0.75  # of a step: "nearly all"
_MUCH = 0.35
_LARGE_BYTES = 50_000
_SERVER_S = 400e-6
"""A server more pays where it takes over as much: see `num_servers` in docs/vector.md."""


def shares(figures: Figures) -> dict[str, float]:
    """Return which share of a step each part took, ``"rest"`` included: of this process."""
    # The parts are means, and their sum may be more than a median.
    whole = max(figures.step_s, sum(figures.parts.values()))
    found = {name: seconds / whole for name, seconds in figures.parts.items()}
    return {**found, "rest": 1.0 - sum(found.values())}


def findings(
    figures: Sequence[Figures], entry: CatalogueEntry, *, cores: int | None = None
) -> list[str]:
    """Return sentences about what was measured, the plainest first.

    Args:
        figures: What was measured.
        entry: Of which environment.
        cores: Processors of this machine; by default as many as it has.
    """
    cores = cores or os.cpu_count() or 1
    there = [each for each in figures if each.problem is None]
    said = []
    for num_envs in sorted({each.subject.num_envs for each in there}):
        alike = [each for each in there if each.subject.num_envs == num_envs]
        said += [_where(each) for each in alike if each.parts]
        # Containers take the same way as processes: what helps one helps the other.
        ours = next((each for each in alike if each.parts), None)
        if ours is not None and num_envs:
            said += _of_vector(ours, alike, entry, cores)
        elif ours is not None:
            said += _of_one(ours, alike)
    return said


def _where(figures: Figures) -> str:
    share = shares(figures)
    way = share["wire"] + share["queue"]
    codec = share["encode"] + share["decode"]
    step = "a step of all" if figures.subject.num_envs else "a step"
    return (
        f"{figures.subject.name}: of {show_seconds(figures.step_s)} for {step} the environment's "
        f"own work takes {share['environment']:.0%}, the way there and back {way:.0%}, encoding "
        f"and decoding here {codec:.0%}, and the rest of the call, resets included, "
        f"{max(share['rest'], 0.0):.0%}."
    )


def _of_one(ours: Figures, alike: Sequence[Figures]) -> list[str]:
    said = []
    share = shares(ours)
    local = next((each for each in alike if each.subject.where == "local"), None)
    if share["environment"] >= _MOST:
        said.append(
            "The environment itself is what takes time: a profiler on its step would tell more "
            "than any option here. More steps in a second come from more of them at a time: "
            "make_vec."
        )
    elif 1 - share["environment"] >= _MUCH and local is not None:
        more_s = ours.step_s - local.step_s
        if more_s > 0:
            said.append(
                f"Being elsewhere adds about {show_seconds(more_s)} to each step. In a vector "
                "(make_vec) that is paid once for all sub-environments of a server."
            )
    if (ours.observation_bytes or 0) > _LARGE_BYTES:
        said.append(_large(ours))
    return said


def _of_vector(
    ours: Figures, alike: Sequence[Figures], entry: CatalogueEntry, cores: int
) -> list[str]:
    said = []
    peers = [each for each in alike if each.subject.where == "local"]
    if peers:
        best = min(peers, key=lambda each: each.step_s)
        said.append(
            f"{ours.subject.name} makes {best.step_s / ours.step_s:.2f}x the steps of "
            f"{best.subject.name}, the faster of those in this process."
        )
    work_s = ours.parts["environment"] * ours.num_servers  # of all sub-environments
    pays = max(min(round(work_s / _SERVER_S), cores), 1)
    vectorized = entry.vectorized is not None
    if pays < ours.num_servers:
        said.append(
            f"All sub-environments together work for {show_seconds(work_s)} a step, which is too "
            f"little for {ours.num_servers} servers: try num_servers={pays}. In a package of yours "
            f"`step_us: {max(round(work_s / ours.subject.num_envs * 1e6), 1)}` in openenv.yaml "
            "makes that the default."
        )
    elif pays > ours.num_servers and not vectorized and not entry.untrusted:
        said.append(
            f"All sub-environments together work for {show_seconds(work_s)} a step on "
            f"{ours.num_servers} server(s), and there are {cores} processors: try "
            f"num_servers={pays}."
        )
    if vectorized and ours.num_servers > 1:
        options = ", ".join(f"{key}={value!r}" for key, value in (entry.vectorized or {}).items())
        said.append(f"With {options} one engine steps all of them, in threads of its own.")
    elif _has_engine(entry):
        said.append(
            'Its own vectorised implementation may be much faster: engine="native" (docs/vector.md '
            "says how it differs)."
        )
    if (ours.observation_bytes or 0) > _LARGE_BYTES:
        said.append(_large(ours))
    return said


def _large(figures: Figures) -> str:
    return (
        f"An observation has {(figures.observation_bytes or 0) / 1024:,.0f} KiB. What makes it "
        "smaller belongs to the server: preprocess=True for Atari, or a registered id with its "
        "wrappers, hosted by openenv/Gymnasium-v0."
    )


def _has_engine(entry: CatalogueEntry) -> bool:
    spec = gymnasium.registry.get((entry.hosted or "").rpartition(":")[2])
    return spec is not None and spec.vector_entry_point is not None


def show_seconds(seconds: float) -> str:
    """Return a duration as text."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} us"
