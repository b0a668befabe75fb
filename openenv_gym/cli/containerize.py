"""``openenv-gym containerize``: an image for any Gymnasium environment of one's own."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from openenv_gym.errors import (
    EnvironmentFailedError,
    ImageBuildError,
    InvalidOptionError,
    OpenEnvGymError,
)


if TYPE_CHECKING:
    from openenv_gym.providers.docker.contexts import Context

__all__ = ["containerize"]

_STEPS = 3

_DOCKERFILE = """\
ARG OPENENV_VERSION
ARG BUILD_IMAGE
ARG BASE_IMAGE

FROM ${{BUILD_IMAGE}} AS build
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_TRUSTED_HOST
{copy}RUN openenv-install {install}

FROM ${{BASE_IMAGE}}
{packages}COPY --from=build /opt/env /opt/env
LABEL org.opencontainers.image.title={title}
ENV SDL_VIDEODRIVER=dummy \\
    SDL_AUDIODRIVER=dummy \\
    MPLBACKEND=agg \\
    MPLCONFIGDIR=/tmp/matplotlib \\
    XDG_CACHE_HOME=/tmp \\
    XDG_CONFIG_HOME=/tmp
CMD ["python", "-m", "openenv_gym.server", "gymnasium", "--option", {option}, "--host", "0.0.0.0"]
"""

_APT = """\
USER root
RUN apt-get update -q && apt-get install -q -y --no-install-recommends {names} && \\
    apt-get clean && rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log
USER 65534:65534
"""


@click.command()
@click.argument("name", metavar="MODULE:ENV_ID")
@click.option(
    "--pip",
    "requirements",
    multiple=True,
    metavar="REQUIREMENT|DIR",
    help="What to install: a requirement, as `pip install` takes it, or a folder with a "
    "pyproject.toml; by default what is called like the module. May be given several times.",
)
@click.option(
    "--apt",
    "packages",
    multiple=True,
    metavar="PACKAGE",
    help="Package of Debian that it needs, such as libgl1; may be given several times.",
)
@click.option(
    "--python",
    metavar="IMAGE",
    help="Image with Python to begin with, such as python:3.13-slim.",
)
@click.option("-t", "--tag", metavar="NAME[:TAG]", help="Name of the image.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def containerize(
    name: str,
    requirements: tuple[str, ...],
    packages: tuple[str, ...],
    python: str | None,
    tag: str | None,
    as_json: bool,
) -> None:
    """Put a Gymnasium environment into an image, whoever wrote it.

    MODULE registers the id ENV_ID when it is imported, as `gymnasium.make` takes it. The image is
    tried out in a hardened container, and the line that makes the environment is printed.

    \b
    openenv-gym containerize minigrid:MiniGrid-Empty-5x5-v0
    openenv-gym containerize highway_env:highway-v0 --pip highway-env==1.10.1
    openenv-gym containerize my_project:Burrow-v0 --pip . --apt libgl1
    """  # noqa: D301
    try:
        module, env_id = _parts(name)
        context = _context(module, env_id, requirements or (module.partition(".")[0],), packages)
    except InvalidOptionError as error:
        raise click.UsageError(str(error)) from error
    from openenv_gym.providers.docker.daemon import connect_daemon
    from openenv_gym.providers.docker.images import BaseImages, build_image, image_name

    client = connect_daemon()
    stem = re.sub(r"[^a-z0-9]+", "-", f"{module.partition('.')[0]}-{env_id}".lower()).strip("-")
    image = image_name("gymnasium", tag or f"openenv-gym-{stem}")
    base = None if python is None else BaseImages.on(python)
    build_image(client, context.name, reference=image, context=context, base=base)
    episode = _try_out(client, image, name)
    line = (
        f'gymnasium.make("openenv/Gymnasium-v0", env_id="{name}", '
        f'provider=DockerProvider(image="{image}"))'
    )
    if as_json:
        click.echo(json.dumps({"image": image, "env_id": name, "make": line, **episode}))
        return
    click.echo(
        f"{image} has been played for {_STEPS} steps in a hardened container: observations are "
        f"{episode['observation_space']}, actions {episode['action_space']}.\n"
    )
    for path, cls in episode["stand_ins"].items():
        click.echo(f"{path} stands for a {cls}, which clients cannot have (docs/spaces.md, 1.13).")
    if episode["stand_ins"]:
        click.echo("")
    click.echo("import gymnasium\nfrom openenv_gym.providers import DockerProvider\n")
    click.echo(f"env = {line}")


def _parts(name: str) -> tuple[str, str]:
    match = re.fullmatch(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([\w:./-]+)", name, re.ASCII)
    if match is None:
        raise InvalidOptionError(
            f"{name!r:.120} is no MODULE:ENV_ID.",
            field="name",
            hint="Expected the module that registers the id, and the id, such as "
            "minigrid:MiniGrid-Empty-5x5-v0.",
        )
    return match[1], match[2]


def _context(
    module: str, env_id: str, requirements: Sequence[str], packages: Sequence[str]
) -> Context:
    """Return what the image is built from.

    Raises:
        InvalidOptionError: A requirement or a package is none.
    """
    from openenv_gym.providers.docker.contexts import Context, folder_files

    files: dict[str, Path | bytes] = {}
    install: list[str] = []
    for text in requirements:
        folder = Path(text).expanduser()
        if text.startswith((".", "/", "~")) or (folder / "pyproject.toml").is_file():
            if not any((folder / each).is_file() for each in ("pyproject.toml", "setup.py")):
                raise InvalidOptionError(
                    f"--pip {text}: there is no pyproject.toml in {folder.resolve()}.",
                    field="pip",
                    hint="Name a folder that pip can install, or a requirement.",
                )
            place = f"project{len(install)}"
            found = folder_files(folder.resolve())
            files.update({f"{place}/{path}": source for path, source in found.items()})
            install.append(f"/src/{place}")
        elif re.match(r"[A-Za-z0-9]|git\+https://|https://", text) and "\n" not in text:
            install.append(_quoted(text))
        else:
            raise InvalidOptionError(
                f"--pip {text!r:.120} is no requirement.",
                field="pip",
                hint="Expected one as `pip install` takes it, such as minigrid==3.0.0, or a "
                "folder.",
            )
    for text in packages:
        if not re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", text):
            raise InvalidOptionError(
                f"--apt {text!r:.80} is no package of Debian.", field="apt", hint="Such as libgl1."
            )
    dockerfile = _DOCKERFILE.format(
        copy="COPY . /src\n" if files else "",
        install=" ".join(install),
        packages=_APT.format(names=" ".join(packages)) if packages else "",
        title=json.dumps(f"{module}:{env_id}"),
        option=json.dumps(f"env_id={module}:{env_id}"),
    )
    return Context(f"{module}:{env_id}", "Dockerfile", {"Dockerfile": dockerfile.encode(), **files})


def _quoted(text: str) -> str:
    """Quote for the shell; a Dockerfile would take a backslash at the end for its own."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def _try_out(client: Any, image: str, name: str) -> dict[str, Any]:
    """Play a few steps in a container; remove an image that cannot be played.

    Raises:
        ImageBuildError: It cannot.
    """
    import gymnasium

    import openenv_gym  # noqa: F401, it registers the ids
    from openenv_gym.providers import DockerProvider
    from openenv_gym.providers.docker.build import narrate

    narrate(f"trying out {image} ...")
    try:
        provider = DockerProvider(image=image, build="never")
        env: gymnasium.Env[Any, Any] = gymnasium.make(
            "openenv/Gymnasium-v0", env_id=name, provider=provider, disable_env_checker=True
        )
        try:
            env.reset(seed=0)
            for _ in range(_STEPS):
                if any(env.step(env.action_space.sample())[2:4]):
                    env.reset()
            spaces = env.observation_space, env.action_space
            session: Any = env.unwrapped.openenv  # type: ignore[attr-defined]
            stand_ins = session.connection.environment.get("stand_ins") or {}
        finally:
            env.close()
    except BaseException as error:  # Ctrl-C, too: nobody has seen that it can be played
        client.api.remove_image(image, force=True)  # its container may be about to go
        if not isinstance(error, (OpenEnvGymError, gymnasium.error.Error)):
            raise
        hint = "Name what it needs with --pip, and what that needs of Debian with --apt."
        if isinstance(error, EnvironmentFailedError):
            hint = f"It raised this by itself. {hint}"
        raise ImageBuildError(
            f"{name} was built and cannot be played, so its image is removed: {error}", hint=hint
        ) from error
    return {
        "observation_space": _short(spaces[0]),
        "action_space": _short(spaces[1]),
        "stand_ins": dict(stand_ins),
    }


def _short(space: object) -> str:
    text = " ".join(str(space).split())
    return text if len(text) <= 120 else f"{text[:117]}..."
