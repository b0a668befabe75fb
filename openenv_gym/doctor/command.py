"""What the command line does for ``doctor --attack IMAGE``."""

from __future__ import annotations

import json

from openenv_gym import errors
from openenv_gym.doctor.attack import report
from openenv_gym.doctor.attack.battery import FLOOD_BYTES, Battery, Finding
from openenv_gym.doctor.attack.rows import ROWS


__all__ = ["attack"]


def attack(
    image: str, *, as_json: bool = False, only: str | None = None, flood_bytes: int = FLOOD_BYTES
) -> int:
    """Run the battery on an image, print its table, and return the exit status.

    Args:
        image: An image that holds this library.
        as_json: Print data at the end, in place of a row as soon as there is one.
        only: A word that the name or group of an attack has; None is all of them.
        flood_bytes: How much is written to the standard output.

    Raises:
        InvalidOptionError: There is no such attack.
        ProviderError: No daemon answers, or it cannot start the image.
    """
    from openenv_gym.providers.docker.daemon import connect_daemon, translated

    rows = [row for row in ROWS if not only or only.lower() in f"{row.group} {row.name}".lower()]
    if not rows:
        groups = ", ".join(sorted({row.group for row in ROWS}))
        raise errors.InvalidOptionError(
            f"There is no attack named {only!r}.", field="only", hint=f"Groups are {groups}."
        )

    def say(finding: Finding) -> None:
        if not as_json:
            print(report.line(finding), flush=True)

    client = connect_daemon()
    with (
        translated(f"start containers of {image}", image),
        Battery(client, image, flood_bytes=flood_bytes, rows=rows) as battery,
    ):
        if not as_json:
            print(report.line())
        findings = battery.run(say)
    if as_json:
        print(json.dumps(report.as_json(findings), indent=2))
    else:
        print(report.summary(findings))
    return 0 if report.passed(findings) else 1
