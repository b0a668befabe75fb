"""The manifest `openenv.yaml`: what an environment package says about itself.

One file serves OpenEnv and this library. OpenEnv's own fields keep their names and defaults, and
fields that only OpenEnv knows are carried along unread; ours say which image and distribution
hold the environment, how carefully to run it, and which Gymnasium ids it provides.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
    model_validator,
)

from openenv_gym.errors import ManifestError


if TYPE_CHECKING:
    import os

    from pydantic_core import ErrorDetails

__all__ = ["Manifest", "ManifestId", "load_manifest"]

_OWN_FIELDS = (
    "distribution",
    "ids",
    "image",
    "license",
    "resets_fully",
    "step_us",
    "thread_affinity",
    "untrusted",
    "vectorized",
)
"""Fields that OpenEnv does not have: a misspelling of one must not pass for a field of OpenEnv's,
or `untrusted` would be off without a word."""

_CLASS = r"^([A-Za-z_][\w.]*:)?[A-Za-z_]\w*$"
_CLASS_TEXT = "a class, such as `EchoAction` or `echo_env.models:EchoAction`"


class ManifestId(BaseModel):
    """One Gymnasium id that the package provides, with what its spec says.

    The descriptions of the fields are what an error message says was expected.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*-v[0-9]+$",
        description="a name with a version and without a namespace, such as `Chess-v0`",
    )
    kwargs: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="a mapping of plain data (strings, numbers, booleans, lists, mappings)",
    )
    render_modes: tuple[str, ...] | None = Field(
        default=None,
        description="a list of render modes, such as `[rgb_array]`; left out where only the "
        "running server knows",
    )
    render_fps: float | None = Field(default=None, gt=0, description="a number greater than 0")
    max_episode_steps: int | None = Field(
        default=None, gt=0, description="an integer greater than 0"
    )
    reward_threshold: float | None = Field(default=None, description="a number")
    nondeterministic: bool = Field(default=False, description="true or false")


class Manifest(BaseModel):
    """The content of an `openenv.yaml`.

    Attributes:
        spec_version: Version of the manifest's form.
        name: Name of the environment; by convention its import package, such as ``echo_env``.
        version: Version of the environment.
        description: One line about it.
        type: OpenEnv's kind of deployment.
        runtime: OpenEnv's kind of server.
        app: ``module:attribute`` of the server's application, seen from the package.
        port: Port of the server inside its container.
        client: The package's client, a name or ``module:name``; without it ``EchoEnv``, for a
            package ``echo_env``.
        action: Its action model, likewise; without it ``EchoAction``.
        observation: Its observation model, likewise; without it ``EchoObservation``.
        default_image: Container image of a package of OpenEnv.
        distribution: Name to `pip install`.
        license: SPDX expression of the environment with all that its image holds.
        image: Container image without registry and tag.
        untrusted: The environment runs code that nobody has reviewed (an agent's, say); it is
            never started without isolation unless the caller insists.
        thread_affinity: Every call of a session must come from one thread.
        resets_fully: After a session nothing of it is left, in no file and no process, so that a
            container that was kept ready may serve another one; otherwise it serves once.
        step_us: Microseconds that a step takes, roughly, where that is less than what a message to
            another server costs; then a second one is started for many sub-environments only.
        vectorized: Options with which one server steps many sub-environments at once, in threads of
            its own, so that one server is enough; None where it never does.
        ids: Gymnasium ids, registered below ``openenv/``.
    """

    model_config = ConfigDict(extra="allow", frozen=True, coerce_numbers_to_str=True)

    spec_version: Literal[1] = Field(default=1, description="1")
    name: str = Field(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$",
        description="a name of letters, digits, `_`, `.` and `-`, such as `chess_env`",
    )
    version: str = Field(default="0.1.0", description="a version in quotes, such as `'0.1.0'`")
    description: str = Field(default="", description="text")
    type: str = Field(default="space", description="text, such as `space`")
    runtime: str = Field(default="fastapi", description="text, such as `fastapi`")
    app: str = Field(
        default="server.app:app",
        pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$",
        description="`module:attribute`, such as `server.app:app`",
    )
    port: int = Field(default=8000, ge=1, le=65535, description="a port from 1 to 65535")
    client: str | None = Field(default=None, pattern=_CLASS, description=_CLASS_TEXT)
    action: str | None = Field(default=None, pattern=_CLASS, description=_CLASS_TEXT)
    observation: str | None = Field(default=None, pattern=_CLASS, description=_CLASS_TEXT)
    default_image: str | None = Field(
        default=None, description="the name of a container image, such as `echo-env:latest`"
    )

    distribution: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$",
        description="a name to `pip install`, such as `openenv-gym-chess`",
    )
    license: str | None = Field(
        default=None, description="an SPDX licence expression, such as `GPL-3.0-or-later`"
    )
    image: str = Field(
        default="",
        pattern=r"^[a-z0-9]+([._/:-]+[a-z0-9]+)*$",
        description="the name of a container image, in lower case",
    )
    untrusted: bool = Field(default=False, description="true or false")
    thread_affinity: bool = Field(default=False, description="true or false")
    resets_fully: bool = Field(default=False, description="true or false")
    step_us: float | None = Field(default=None, gt=0, description="a number greater than 0")
    vectorized: dict[str, Any] | None = Field(
        default=None, description="a mapping of options, such as `{preprocess: true}`"
    )
    ids: tuple[ManifestId, ...] = Field(
        default=(), description="a list of mappings, each with an `id` such as `Chess-v0`"
    )

    @model_validator(mode="before")
    @classmethod
    def _name_the_image(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("image") is None and "name" in data:
            return {**data, "image": f"openenv-gym-{_short_name(str(data['name']))}"}
        return data

    @field_validator("ids")
    @classmethod
    def _once_each(cls, ids: tuple[ManifestId, ...]) -> tuple[ManifestId, ...]:
        names = [entry.id for entry in ids]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"each id once; {', '.join(twice)} is there more often")
        return ids

    @property
    def short_name(self) -> str:
        """The name as images and distributions carry it: ``connect_four_env``, ``connect-four``."""
        return _short_name(self.name)


def load_manifest(path: str | os.PathLike[str]) -> Manifest:
    """Read and check an `openenv.yaml`.

    Args:
        path: The file.

    Returns:
        What it says.

    Raises:
        ManifestError: If the file cannot be read, is no YAML mapping, or a field does not hold;
            ``field`` names the first such field and ``data["problems"]`` lists all of them.
    """
    path = Path(path)
    data = _read(path)
    for key in data:
        if key in Manifest.model_fields:
            continue
        if close := difflib.get_close_matches(key, _OWN_FIELDS, n=1, cutoff=0.8):
            raise ManifestError(
                f"{path}: `{key}` is not a field of the manifest; expected `{close[0]}`.",
                field=key,
                hint=f"Rename `{key}` to `{close[0]}`.",
                data={"file": str(path)},
            )
    try:
        return Manifest.model_validate(data)
    except ValidationError as error:
        raise _manifest_error(path, error) from None


def _short_name(name: str) -> str:
    short = name.lower().removesuffix("_env").removesuffix("-env")
    return re.sub(r"[^a-z0-9]+", "-", short).strip("-")


def _read(path: Path) -> dict[str, Any]:
    # Reading YAML costs an import that most programs never need.
    import yaml

    facts = {"file": str(path)}
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ManifestError(
            f"There is no manifest {path}.",
            hint="Expected a file `openenv.yaml` beside the package's `__init__.py`; add one, "
            "or name it as package data so that it is installed.",
            data=facts,
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(
            f"{path} cannot be read: {error}.",
            hint="Expected a readable text file in UTF-8; correct its permissions or encoding.",
            data=facts,
        ) from None
    try:
        data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ManifestError(
            f"{path} is not YAML: {' '.join(str(error).split())}.",
            hint="Expected lines of the form `name: chess_env`; correct the line named above.",
            data=facts,
        ) from None
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise ManifestError(
            f"{path} holds {type(data).__name__ if data is not None else 'nothing'}; "
            "expected a mapping with names as keys.",
            hint="Begin with the line `name: chess_env`, with your environment's name.",
            data=facts,
        )
    return data


def _manifest_error(path: Path, error: ValidationError) -> ManifestError:
    problems = [_explain(details) for details in error.errors(include_url=False)]
    field, message, hint = problems[0]
    more = f" ({len(problems) - 1} more)" if len(problems) > 1 else ""
    return ManifestError(
        f"{path}: {message}{more}.",
        field=field,
        hint=hint,
        data={"file": str(path), "problems": [text for _, text, _ in problems]},
    )


def _explain(details: ErrorDetails) -> tuple[str, str, str]:
    """Return the field's path, what is wrong with it, and what to do."""
    field, expected, known = _locate(details["loc"])
    if details["type"] == "missing":
        return field, f"`{field}` is missing; expected {expected}", f"Add `{field}` to the file."
    if details["type"] == "extra_forbidden":
        text = f"`{field}` is not known here; expected one of {', '.join(known)}"
        return field, text, f"Remove or rename `{field}`."
    if details["type"] == "value_error":
        expected = str(details["ctx"]["error"])
    # What a file holds may be long; the beginning shows what it is.
    value = repr(details["input"])
    value = value if len(value) <= 80 else f"{value[:77]}..."
    return field, f"`{field}` is {value}; expected {expected}", f"Change `{field}` in the file."


def _locate(loc: tuple[int | str, ...]) -> tuple[str, str, tuple[str, ...]]:
    """Return a path such as ``ids[0].kwargs``, what its field expects, and its neighbours."""
    model: type[BaseModel] = Manifest
    field, expected = "", ""
    for part in loc:
        if isinstance(part, int):
            model = ManifestId
            field += f"[{part}]"
            continue
        field += f".{part}" if field else part
        if part in model.model_fields:
            expected = model.model_fields[part].description or ""
    return field, expected, tuple(model.model_fields)
