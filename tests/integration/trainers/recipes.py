"""What docs/recipes.md says: how a script differs from its local form."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple


ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "recipes.md"

_BLOCK = re.compile(r'^```diff title="(examples/\S+)"\n(.*?)^```$', re.DOTALL | re.MULTILINE)


class Recipe(NamedTuple):
    """One difference.

    Attributes:
        script: Path of a script below the checkout.
        here: Lines of the local form.
        there: Lines of the script, in the place of those.
    """

    script: str
    here: str
    there: str

    def local_form(self) -> str:
        """Return the script as it is without this library.

        Raises:
            ValueError: The lines are not in the script, or are there more than once.
        """
        text = (ROOT / self.script).read_text(encoding="utf-8")
        if text.count(self.there) != 1:
            raise ValueError(f"{self.script} has {text.count(self.there)} times\n{self.there}")
        return text.replace(self.there, self.here)


def recipes() -> dict[str, list[Recipe]]:
    """Return those of the page, by the names of their scripts without ``_ppo.py``."""
    found: dict[str, list[Recipe]] = {}
    for script, block in _BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        name = Path(script).stem.removesuffix("_ppo")
        found.setdefault(name, []).append(
            Recipe(script, _lines(block, " -"), _lines(block, " +")),
        )
    return found


def _lines(block: str, signs: str) -> str:
    return "".join(line[1:] for line in block.splitlines(keepends=True) if line[0] in signs)
