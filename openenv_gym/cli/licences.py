"""Licences that ``openenv-gym init`` gives a package."""

from __future__ import annotations

import datetime
import subprocess
from pathlib import Path


__all__ = ["LICENCES", "holder_here", "licence_text"]

LICENCES = {
    "MIT": "MIT",
    "Apache-2.0": "Apache-2.0",
    "BSD-3-Clause": "BSD-3-Clause",
    "proprietary": "LicenseRef-Proprietary",
}
"""Each licence that can be asked for, and its SPDX expression."""

_FOLDER = Path(__file__).resolve().parents[1] / "templates" / "licenses"
_ASK_S = 5.0


def licence_text(name: str, holder: str) -> str:
    """Return the text of a licence.

    Args:
        name: One of `LICENCES`.
        holder: Whose work it is.
    """
    text = (_FOLDER / name).read_text(encoding="utf-8")
    year = str(datetime.date.today().year)
    return text.replace("[year]", year).replace("[holder]", holder)


def holder_here(package: str) -> str:
    """Return whose work a package is: git's user, or else its authors without a name.

    Args:
        package: Its name.
    """
    try:
        done = subprocess.run(
            ["git", "config", "user.name"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_ASK_S,
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return f"The authors of {package}"
    return " ".join(done.stdout.split()) or f"The authors of {package}"
