"""`AutoAction`: the action model of an environment, by its name."""

from __future__ import annotations

from typing import Any, NoReturn

from openenv_gym import errors
from openenv_gym.openenv.auto.classes import load_class
from openenv_gym.openenv.auto.installed import find_environment, find_environments
from openenv_gym.openenv.auto.names import resolve
from openenv_gym.openenv.generic_client import GenericAction


__all__ = ["AutoAction"]


class AutoAction:
    """The action model of an environment, by its name. There are no instances.

    ::

        EchoAction = AutoAction.from_env("echo")
        with AutoEnv.from_env("echo") as client:
            client.step(EchoAction(message="Hi"))
    """

    def __new__(cls) -> NoReturn:
        """Refuse: it is its class methods."""
        raise errors.ConfigurationError(
            "AutoAction has no instances.", hint='Use AutoAction.from_env("echo").'
        )

    @classmethod
    def from_env(
        cls, name: str, skip_install: bool = False, *, trust_remote_code: bool = False
    ) -> type[Any]:
        """Return the action model of an environment; `GenericAction` where no code of it is here.

        Args:
            name: See `AutoEnv.from_env`.
            skip_install: Import no code of the environment.
            trust_remote_code: Install the package of a Space that is not installed; see
                `AutoEnv.from_env`.

        Raises:
            UnknownEnvironmentError: There is no such environment.
            ConfigurationError: Its package cannot be imported or installed.
        """
        found = resolve(name, trust_remote_code=trust_remote_code and not skip_install)
        if skip_install or found.info is None:
            return GenericAction
        return load_class(found.info, "action") or GenericAction

    @classmethod
    def from_hub(
        cls, env_name: str, skip_install: bool = False, *, trust_remote_code: bool = False
    ) -> type[Any]:
        """Do what `from_env` does; OpenEnv has both names."""
        return cls.from_env(env_name, skip_install, trust_remote_code=trust_remote_code)

    @classmethod
    def get_action_info(cls, name: str) -> dict[str, Any]:
        """Return what is known of an environment's action, without importing it.

        Returns:
            ``env_key``, ``env_name``, ``package``, ``action_class``, ``observation_class`` and
            ``module``, as OpenEnv has them.

        Raises:
            UnknownEnvironmentError: There is no such environment.
        """
        info = find_environment(name)
        return {
            "env_key": info.key,
            "env_name": info.name,
            "package": info.distribution or info.package,
            "action_class": info.class_name("action"),
            "observation_class": info.class_name("observation"),
            "module": info.package,
        }

    @classmethod
    def list_actions(cls) -> None:
        """Print the action models of the environments that are known here; imports none."""
        for key, info in find_environments().items():
            print(f"{key:<16} {info.class_name('action')} ({info.package})")
