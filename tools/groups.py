"""What each command of ``dev.py`` needs, and the virtual environments that hold it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tools.venvs import ROOT, digest_of, ensure_venv, read_stamp


__all__ = [
    "APART",
    "DOCS",
    "GROUPS",
    "LLM_TRAINERS",
    "OPENENV_RELEASES",
    "TRAINERS",
    "VENV",
    "Group",
    "prepare",
]

VENV = ROOT / ".venv"
_TORCH = "2.13.0"  # of the trainers


@dataclass(frozen=True)
class Group:
    """What one command needs in ``.venv``.

    Attributes:
        extras: Extras of the library.
        environments: Folders below ``envs/``; None stands for every one.
        environment_extra: Extra of each environment package, taken where the package has it.
        requirements: Further requirements.
    """

    extras: tuple[str, ...] = ()
    environments: tuple[str, ...] | None = None
    environment_extra: str | None = None
    requirements: tuple[str, ...] = ()


GROUPS = {
    "play": Group(extras=("docker",), environments=("atari_env",), requirements=("pillow>=10",)),
    "test": Group(extras=("test",), environment_extra="test"),
    "images": Group(extras=("docker",)),
    "lint": Group(extras=("test", "lint"), environment_extra="test"),
    "bench": Group(extras=("benchmarks", "docker")),
    "ray": Group(extras=("test", "ray"), environments=("echo_env",)),
    "browser": Group(
        extras=("test",), environment_extra="test", requirements=("playwright>=1.40",)
    ),
    "llm": Group(
        extras=("test", "trl"),
        environments=("coding_env", "echo_env", "openspiel_env"),
        # What the tools of `LLM_TRAINERS` import.
        requirements=(
            "cachetools",
            "codetiming",
            "fastapi",
            "func_timeout",
            "hydra-core",
            "omegaconf",
            "pillow",
            "ray",
            "tensordict>=0.8,<=0.10,!=0.9.0",
            "torchdata",
            "uvicorn",
        ),
    ),
    "upstream": Group(
        extras=("test",),
        environment_extra="test",
        # Everything that Gymnasium ships environments of, and every kind of array that it knows.
        requirements=("gymnasium[array-api,box2d,jax,mujoco,torch]",),
    ),
    # One release of each: equal curves are only promised for those that were seen to be equal.
    "ppo": Group(
        extras=("docker",),
        environments=("atari_env",),
        requirements=("opencv-python-headless>=4.8", f"torch=={_TORCH}", "tyro>=1.0"),
    ),
    "trainers": Group(
        environments=("atari_env",),
        requirements=(
            "stable-baselines3==2.9.2",
            "tianshou==2.0.1; python_version >= '3.11'",
            "torchrl==0.14.1",
        ),
    ),
    # In a virtual environment of its own: it wants Gymnasium 1.2.2.
    "rllib": Group(
        extras=("docker",),
        environments=(),
        requirements=("ray[rllib]==2.60.0", f"torch=={_TORCH}"),
    ),
}

# Trainer -> its groups, and their virtual environment.
TRAINERS = {
    "ppo": (("ppo",), "trainers"),
    "stable_baselines3": (("ppo", "trainers"), "trainers"),
    "torchrl": (("ppo", "trainers"), "trainers"),
    "tianshou": (("ppo", "trainers"), "trainers"),
    "rllib": (("rllib",), "rllib"),
}

APART = ("llm", "ppo", "ray", "rllib", "trainers", "upstream")
"""Groups that have a virtual environment of their own: they take hundreds of megabytes."""

DOCS = ("zensical>=0.0.73,<0.1", "mkdocstrings-python>=2.0,<3", "ruff>=0.6")
"""What makes the site; in a virtual environment of its own, for it reads the library as text."""

LLM_TRAINERS = ("verl==0.9.1", "skyrl-gym==0.4.0")
"""Taken without what they pin, which excludes TRL's; what their tools import is in a group."""

OPENENV_RELEASES = {
    # What its chess environment imports, too: that of a checkout is served with this.
    "0.10": ("openenv==0.10.0", "chess>=1.11", "moonfish"),
    "0.3": ("openenv-core==0.3.0",),
}


def prepare(*names: str, venv: Path = VENV) -> str:
    """Make a virtual environment fit for some groups, beside those it was fit for before.

    Returns:
        The virtual environment's interpreter.
    """
    projects = [ROOT / "pyproject.toml", *sorted(ROOT.glob("envs/*/pyproject.toml"))]
    # An editable installation points at this folder, so a moved checkout counts as a change.
    digest = digest_of([str(ROOT), *(path.read_text(encoding="utf-8") for path in projects)])
    before = read_stamp(venv)
    # Groups are added up: `test` after `play` keeps what `play` needs.
    groups = sorted({*names, *(name for name in before.get("groups", ()) if name in GROUPS)})
    return ensure_venv(
        venv,
        _requirements([GROUPS[name] for name in groups], projects[1:]),
        what="the library and its environments",
        digest=digest,
        facts={"groups": groups},
    )


def _requirements(groups: Iterable[Group], projects: Iterable[Path]) -> list[str]:
    """Return pip's arguments for the groups; `projects` are the environments' pyproject files."""
    groups = list(groups)
    extras = sorted({extra for group in groups for extra in group.extras})
    arguments = ["--editable", f".[{','.join(extras)}]" if extras else "."]
    for project in projects:
        takers = [
            group
            for group in groups
            if group.environments is None or project.parent.name in group.environments
        ]
        wanted = {group.environment_extra for group in takers if group.environment_extra}
        # pip warns of an extra that a package lacks; not every environment needs one.
        having = sorted(extra for extra in wanted if _declares_extra(project, extra))
        if takers:
            suffix = f"[{','.join(having)}]" if having else ""
            folder = project.parent.relative_to(ROOT).as_posix()
            arguments += ["--editable", f"./{folder}{suffix}"]
    return arguments + sorted({line for group in groups for line in group.requirements})


def _declares_extra(project: Path, extra: str) -> bool:
    # Python 3.10 has no TOML parser; a table heading and a key at a line's begin are enough here.
    text = project.read_text(encoding="utf-8")
    table = re.search(
        r"^\[project\.optional-dependencies\]\s*$(.*?)(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL
    )
    return bool(table and re.search(rf"^{re.escape(extra)}\s*=", table[1], re.MULTILINE))
