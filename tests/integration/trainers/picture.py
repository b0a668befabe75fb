"""Draw what trainers learn here and on servers: ``python -m tests.integration.trainers.picture``.

Names of trainers are its arguments; their curves go into one picture, docs/images/trainers.png.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.integration.trainers.cases import CASES
from tests.integration.trainers.recipes import ROOT


PICTURE = ROOT / "docs" / "images" / "trainers.png"
ROWS = (("here", False, "#2980b9"), ("on servers", True, "#c0392b"))


def draw(curves: dict[str, tuple[Any, Any]], path: Path) -> None:
    """Draw a column for each trainer: its local form above, the script below.

    Args:
        curves: Pairs of a step and a return, of both forms, by the trainer's name.
        path: The PNG file.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        len(ROWS), len(curves), figsize=(2.1 * len(curves), 3.4), squeeze=False, sharey="col"
    )
    for column, (name, both) in zip(axes.T, curves.items(), strict=True):
        for (label, _, colour), axis, curve in zip(ROWS, column, both, strict=True):
            axis.plot(*zip(*curve, strict=True), ".", color=colour, markersize=2)
            axis.tick_params(labelsize=6)
            axis.set_title(f"{name}, {label}", fontsize=7)
    figure.supxlabel("steps", fontsize=7)
    figure.supylabel("return of an episode", fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def main(names: Sequence[str]) -> None:
    """Train, and draw; the two must be equal."""
    curves = {}
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            print(f"{name} ...", flush=True)
            local, hosted = (
                CASES[name].train(Path(folder), hosted=hosted)["curve"] for _, hosted, _ in ROWS
            )
        if local != hosted:
            raise SystemExit(f"{name}: the two curves differ")
        curves[name] = (local, hosted)
    draw(curves, PICTURE)
    print(f"wrote {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main(sys.argv[1:])
