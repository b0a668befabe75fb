"""The command ``openenv-gym``. It needs click: ``pip install "openenv-gym[cli]"``."""

from __future__ import annotations

import sys


__all__ = ["run"]


def run() -> None:
    """Run the command; what the console script calls."""
    try:
        from openenv_gym.cli.main import main
    except KeyboardInterrupt:
        print("Aborted!", file=sys.stderr)
        sys.exit(1)
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        print('openenv-gym needs click: pip install "openenv-gym[cli]"', file=sys.stderr)
        sys.exit(1)
    main()
