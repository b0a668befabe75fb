"""``openenv-gym init``: begin an environment package that works at once."""

from __future__ import annotations

import json
import keyword
import re
import shlex
import shutil
import tempfile
from pathlib import Path

import click

from openenv_gym.cli.licences import LICENCES, holder_here, licence_text
from openenv_gym.errors import ConfigurationError, InvalidOptionError


__all__ = ["init", "write_package"]

TEMPLATES = ("basic", "gymnasium", "mcp", "text")

_FOLDER = Path(__file__).resolve().parents[1] / "templates"
_LINE = 100  # columns, as the package's own settings have it
_LONGEST = 24

# Files whose own names would mean something here.
_NAMES = {"dockerignore": ".dockerignore", "gitignore": ".gitignore"}


@click.command()
@click.argument("name")
@click.option(
    "-o",
    "--output",
    "parent",
    default=".",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the package's folder is made; by default here.",
)
@click.option(
    "--template",
    default="basic",
    show_default=True,
    type=click.Choice(TEMPLATES),
    help="What to begin with; see above.",
)
@click.option(
    "--license",
    "licence",
    default="MIT",
    show_default=True,
    type=click.Choice(list(LICENCES)),
    help="What others may do with it; `license` in the manifest and LICENSE say so.",
)
@click.option(
    "--author", metavar="NAME", help="Whose work it is, for LICENSE; by default git's user.name."
)
def init(name: str, parent: Path, template: str, licence: str, author: str | None) -> None:
    """Begin an environment of your own: a package that works, with its tests.

    NAME is that of the package, such as burrow_env; `_env` is added where it is missing.

    \b
    basic       actions and observations as Pydantic models, a rubric for the reward
    gymnasium   a gymnasium.Env, served as it is
    mcp         tools that an agent calls, also through MCP
    text        text in, text out, for language models, a rubric for the reward

    \b
    openenv-gym init burrow_env
    openenv-gym init burrow_env -o envs --template gymnasium
    cd burrow_env && pip install -e ".[dev]" && pytest
    """  # noqa: D301
    try:
        folder = write_package(name, parent, template, licence=licence, author=author)
    except InvalidOptionError as error:
        raise click.BadParameter(str(error), param_hint="NAME") from error
    package = folder.name
    stem = package.removesuffix("_env")
    click.echo(f"{folder} is made, from the template {template}, under the licence {licence}.")
    click.echo("\nNext:")
    steps = {
        f"cd {shlex.quote(str(folder))}": "",
        'pip install -e ".[dev]" && pytest': "its tests pass",
        f"$EDITOR server/{stem}_environment.py": "what it does",
        "openenv-gym serve": "try it out",
        "openenv-gym build": "its container image",
    }
    for command, what in steps.items():
        click.echo(f"    {command:44}{'# ' + what if what else ''}".rstrip())


def write_package(
    name: str, parent: Path, template: str, *, licence: str = "MIT", author: str | None = None
) -> Path:
    """Make a package from a template; all of it, or nothing.

    Args:
        name: Its name; ``_env`` is added where it is missing.
        parent: Directory that gets its folder.
        template: One of `TEMPLATES`.
        licence: One of `LICENCES`.
        author: Whose work it is; by default git's user.

    Returns:
        Its folder.

    Raises:
        InvalidOptionError: No package can be called that.
        ConfigurationError: There is such a folder already, or it cannot be written.
    """
    stem = _stem(name)
    folder = parent / f"{stem}_env"
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigurationError(
            f"{folder} is there already, and is not empty.",
            field="name",
            hint="Take another name, or another place (-o DIR).",
        )
    files = _rendered(stem, template, LICENCES[licence])
    files["LICENSE"] = licence_text(licence, author or holder_here(folder.name))
    try:
        parent.mkdir(parents=True, exist_ok=True)
        # Beside its place, so that it appears there all at once.
        with tempfile.TemporaryDirectory(prefix=f".{stem}-", dir=parent) as directory:
            made = Path(directory, folder.name)
            for path, content in files.items():
                (made / path).parent.mkdir(parents=True, exist_ok=True)
                (made / path).write_text(content, encoding="utf-8")
            if folder.is_dir():
                folder.rmdir()
            shutil.move(made, folder)
    except OSError as error:
        raise ConfigurationError(
            f"{folder} cannot be written: {error.strerror or error}.",
            field="output",
            hint="Take another place (-o DIR).",
        ) from error
    return folder


def _stem(name: str) -> str:
    """Return the name without ``_env``.

    Raises:
        InvalidOptionError: No package, or no id, can be called that.
    """
    stem = name.removesuffix("_env")
    good = re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", stem) and not keyword.iskeyword(stem)
    if not good or len(stem) > _LONGEST:
        near = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())
        near = re.sub(r"^[_0-9]+", "", near).strip("_").removesuffix("_env")[:_LONGEST].strip("_")
        raise InvalidOptionError(
            f"No environment package can be called {name!r:.80}.",
            field="name",
            hint=f"Expected at most {_LONGEST} lower-case letters, digits and single underscores, "
            f"with a letter in front{f', such as {near}_env' if near else ''}.",
        )
    from openenv_gym.registration import known_environments
    from openenv_gym.registration.catalogue import base_name, our_id

    identifier = our_id(f"{_camel(stem)}-v0")
    for entry in known_environments().values():
        if base_name(entry.id) == base_name(identifier):
            raise InvalidOptionError(
                f"Its id would be {identifier}, and {entry.id} is of the package {entry.package}.",
                field="name",
                hint=f"Take another name, such as my_{stem}_env.",
            )
    return stem


def _camel(stem: str) -> str:
    return "".join(word.capitalize() for word in stem.split("_"))


def _rendered(stem: str, template: str, licence: str) -> dict[str, str]:
    """Return the package's files but for its licence: text by path."""
    sources = {}
    for folder in (_FOLDER / "common", _FOLDER / template):  # the second one wins
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                sources[path.relative_to(folder).as_posix()] = path
    words = {"template": stem, "Template": _camel(stem), "TEMPLATE_LICENSE": licence}
    files = {}
    for name, path in sources.items():
        text = path.read_text(encoding="utf-8")
        if name == "README.md":
            whole = (_FOLDER / "common" / name).read_text(encoding="utf-8")
            text = whole.replace("TEMPLATE_TABLE\n", f"{text}\n")
        # What is installed, built and uploaded has names with dashes.
        text = re.sub(r"(openenv-|you/)template\b", rf"\g<1>{stem.replace('_', '-')}", text)
        text = re.sub("|".join(words), lambda match: words[match[0]], text)
        *folders, last = name.replace("template", stem).split("/")
        made = "/".join([*folders, _NAMES.get(last, last)])
        files[made] = _wrapped(text) if made.endswith((".py", ".toml")) else text
    files["pyproject.toml"] += _checkout()
    return files


def _wrapped(text: str) -> str:
    """Wrap lines of code that a long name has made too long, as a formatter does."""
    return "\n".join(_wrapped_line(line) for line in text.split("\n"))


def _wrapped_line(line: str) -> str:
    indent = line[: len(line) - len(line.lstrip())]
    if len(line) <= _LINE:
        return line
    if match := re.fullmatch(r"( *from \S+ import )(.+)", line):
        begin, inside, end = f"{match[1]}(", match[2], ")"
    elif match := re.fullmatch(r"([^(\[\x22]+[(\[])(.+)([)\]][^)\]]*)", line):
        begin, inside, end = match.groups()
    else:
        return line
    if begin.endswith("[") or " import " in line:  # one a line
        inside = f",\n{indent}    ".join(inside.split(", ")) + ","
    return f"{begin}\n{indent}    {inside}\n{indent}{end}"


def _checkout() -> str:
    """Return where uv finds this library, where it runs from a checkout; pip knows already."""
    checkout = _FOLDER.parents[1]
    if not (checkout / "pyproject.toml").is_file():
        return ""
    return f"""
# Where uv finds the library that made this package; `openenv-gym push` leaves it out.
[tool.uv.sources]
openenv-gym = {{ path = {json.dumps(str(checkout))} }}
"""
