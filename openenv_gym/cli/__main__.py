"""``python -m openenv_gym.cli``: the same as ``openenv-gym``."""

from openenv_gym.cli import run


__all__: list[str] = []

if __name__ == "__main__":
    run()
