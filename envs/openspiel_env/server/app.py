"""The application that a server serves (named in `openenv.yaml`)."""

from __future__ import annotations

from typing import Any

from openenv_gym.server import create_app
from openenv_gym.server.application import check_options
from openspiel_env.server.blackjack import TextBlackjackEnvironment
from openspiel_env.server.openspiel_environment import OpenSpielEnvironment


__all__ = ["app", "make_environment"]


def make_environment(
    *, rules: str | None = None, **options: Any
) -> OpenSpielEnvironment | TextBlackjackEnvironment:
    """Make an environment: a game of OpenSpiel, or where rules are named, blackjack in words.

    Args:
        rules: The rules of `TextBlackjackEnvironment`; None for `OpenSpielEnvironment`.
        **options: The other options of that environment.

    Raises:
        InvalidOptionError: An option does not exist, or has a value that is not taken.
    """
    factory = OpenSpielEnvironment if rules is None else TextBlackjackEnvironment
    check_options(factory, options)
    return OpenSpielEnvironment(**options) if rules is None else factory(rules, **options)


app = create_app(make_environment, name="openspiel_env")
