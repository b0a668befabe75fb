"""``openenv-gym info``: what is known of an environment before anything is started."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from typing import Any

import click

from openenv_gym.errors import UnknownEnvironmentError, printable


__all__ = ["info"]


@click.command()
@click.argument("name")
@click.option("--spaces", is_flag=True, help="Also start a server, and ask it for the spaces.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def info(name: str, spaces: bool, as_json: bool) -> None:
    """Tell what is known of NAME: an id, or an environment package.

    \b
    openenv-gym info openenv/Pong-v5
    openenv-gym info echo_env
    openenv-gym info CartPole-v1 --spaces
    """  # noqa: D301
    facts = _of_package(name) if _is_package(name) else _of_id(name)
    if spaces:
        facts |= _spaces(facts["id"] if "id" in facts else _first_id(facts))
    if as_json:
        click.echo(json.dumps(facts))
        return
    shown = {key: value for key, value in facts.items() if value not in (None, "", [], {}, False)}
    width = max(map(len, shown))
    for key, value in shown.items():
        text = value if isinstance(value, str) else json.dumps(value)
        click.echo(f"{key:{width}}  {printable(text)}")


def _is_package(name: str) -> bool:
    return (
        name.isidentifier() and name != "gymnasium" and importlib.util.find_spec(name) is not None
    )


def _of_id(name: str) -> dict[str, Any]:
    from openenv_gym.registration import lookup

    entry = lookup(name)
    return {**dataclasses.asdict(entry), "make": f'gymnasium.make("{entry.id}")'}


def _of_package(name: str) -> dict[str, Any]:
    from openenv_gym.registration import find_manifest
    from openenv_gym.registration.discovery import manifest_entries

    manifest, path = find_manifest(name)
    facts: dict[str, Any] = manifest.model_dump(mode="json")
    facts["ids"] = [entry.id for entry in manifest_entries(manifest, name)]
    return {**facts, "manifest": str(path)}


def _first_id(facts: dict[str, Any]) -> str:
    if not facts["ids"]:
        raise UnknownEnvironmentError(
            f"{facts['name']} has no id, so nothing of it can be made.",
            hint="Name one under `ids` in its openenv.yaml.",
        )
    return str(facts["ids"][0])


def _spaces(env_id: str) -> dict[str, Any]:
    import gymnasium

    import openenv_gym  # noqa: F401

    click.echo("starting a server ...", err=True)
    env = gymnasium.make(env_id, disable_env_checker=True)
    try:
        return {
            "observation_space": str(env.observation_space),
            "action_space": str(env.action_space),
        }
    finally:
        env.close()
