"""``python -m openenv_gym.doctor``: tell what works here, with the fix beside what does not."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from openenv_gym import errors
from openenv_gym.doctor import report
from openenv_gym.doctor.command import attack


def main(argv: Sequence[str] | None = None) -> int:
    """Run the checks, or the attacks, and return the exit status: 1 where something fails."""
    parser = argparse.ArgumentParser(prog="python -m openenv_gym.doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print data instead of text")
    parser.add_argument(
        "--attack",
        metavar="IMAGE",
        help="try to break out of a container of this image, and print a table of what was held "
        "off",
    )
    parser.add_argument(
        "--only", metavar="WORD", help="with --attack: attacks whose name or group has this word"
    )
    options = parser.parse_args(argv)
    try:
        if options.attack:
            return attack(options.attack, as_json=options.json, only=options.only)
        checks = report.examine()
    except errors.OpenEnvGymError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    if options.json:
        print(json.dumps(report.as_json(checks), indent=2))
    else:
        print("\n".join(report.lines(checks)))
    return 0 if report.healthy(checks) else 1


if __name__ == "__main__":
    sys.exit(main())
