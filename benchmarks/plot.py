"""The picture of docs/performance.md, drawn from the kept figures."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness import BenchmarkError
from benchmarks.scaling import ATARI, CARTPOLE, COUNTS


__all__ = ["curves", "draw", "require_matplotlib"]

_PANELS = (("Pong, preprocessed: 4x84x84", ATARI), ("CartPole", CARTPOLE))

# Label -> colour, dashes, width; the same in both panels.
_STYLES: Mapping[str, tuple[str, str, float]] = {
    "openenv-gym, containers": ("#c0392b", "-", 2.6),
    "openenv-gym, containers, native": ("#c0392b", "--", 2.6),
    "AtariVectorEnv in process": ("#34495e", "--", 1.6),
    "CartPoleVectorEnv in process": ("#34495e", "--", 1.6),
    "EnvPool": ("#16a085", "--", 1.6),
    "AsyncVectorEnv": ("#2980b9", "-", 1.6),
    "SyncVectorEnv": ("#8e8e8e", "-", 1.6),
}

Curve = list[tuple[int, float]]


def curves(reports: Mapping[str, Any]) -> list[tuple[str, dict[str, Curve]]]:
    """Return, for each panel, its title and observations per second by contender.

    Args:
        reports: Kept reports by their names; points that are missing are left out.
    """
    panels = []
    for title, benchmarks in _PANELS:
        lines: dict[str, Curve] = {}
        for benchmark in benchmarks:
            for contender in reports.get(benchmark.name, {}).get("contenders", ()):
                label = _label(contender["name"], benchmark.num_envs)
                point = (benchmark.num_envs, contender["observations_per_s"])
                lines.setdefault(label, []).append(point)
        panels.append((title, lines))
    return panels


def require_matplotlib() -> None:
    """Check that the picture can be drawn: before an hour of measuring rather than after it.

    Raises:
        BenchmarkError: matplotlib is missing.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise BenchmarkError(
            "matplotlib draws the picture, and is missing: pip install 'openenv-gym[benchmarks]'"
        )


def draw(saved: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw the picture.

    Args:
        saved: What `saved.read` returned.
        folder: Where it goes.

    Returns:
        The files: a PNG and an SVG.

    Raises:
        BenchmarkError: There is nothing to draw, or matplotlib is missing.
    """
    panels = curves(saved["benchmarks"])
    if not any(lines for _, lines in panels):
        raise BenchmarkError("no point of a curve was measured; `all --plot` measures them")
    require_matplotlib()
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    # The same figures give the same files: neither dates nor random identifiers.
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "performance", "font.size": 10}
    with pyplot.rc_context(settings):
        figure, axes = pyplot.subplots(1, len(panels), figsize=(11, 4.6), layout="constrained")
        for axis, (title, lines) in zip(axes, panels, strict=True):
            _draw_panel(axis, title, lines)
        axes[0].set_ylabel("observations per second")
        machine = saved["machine"]
        figure.suptitle(
            f"{machine['cores']} cores ({machine['processor']}), Python {machine['python']}",
            fontsize=9,
            color="#666666",
        )
        paths = [folder / "performance.png", folder / "performance.svg"]
        figure.savefig(paths[0], dpi=110, metadata={"Software": None})
        figure.savefig(paths[1], metadata={"Date": None})
        pyplot.close(figure)
    return paths


def _draw_panel(axis: Any, title: str, lines: Mapping[str, Curve]) -> None:
    # Ours last, so that it lies above the others; first in the legend.
    order = [label for label in _STYLES if label in lines]
    for label in reversed(order):
        colour, dashes, width = _STYLES[label]
        counts, rates = zip(*lines[label], strict=True)
        line = {"color": colour, "linestyle": dashes, "linewidth": width, "label": label}
        axis.plot(counts, rates, marker="o", markersize=4, **line)
    axis.set_title(title)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(COUNTS, [str(count) for count in COUNTS])
    axis.set_xlabel("num_envs")
    axis.grid(True, which="both", color="#e6e6e6", linewidth=0.6)
    handles, labels = axis.get_legend_handles_labels()
    if handles:
        axis.legend(handles[::-1], labels[::-1], fontsize=8, frameon=False)


def _label(name: str, num_envs: int) -> str:
    """Return a contender's name without what differs from point to point, or is a version."""
    name = name.removesuffix(f", {num_envs}")
    return "EnvPool" if name.startswith("EnvPool ") else name
