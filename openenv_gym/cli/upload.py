"""What `openenv-gym push` sends to a Space: which files, in which form, and never a secret.

A Space builds the ``Dockerfile`` at its top, and no registry has this library's base image. So
the Space gets the library's source beside the environment, and a Dockerfile of both: the base's
stages, then the environment's own ones.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openenv_gym.cli.ignored import ignored
from openenv_gym.errors import ConfigurationError


if TYPE_CHECKING:
    from openenv_gym.models.manifest import Manifest

__all__ = ["LIBRARY", "Upload", "collect"]

LIBRARY = ".openenv-gym"
"""Folder of a Space that has the library's source."""

_NEVER = (
    *("*.env", ".env*", "*.pem", "*.key", "*.ppk", "*.p12", "*.pfx", "*.jks", "*.keystore"),
    *("*.kdbx", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".netrc", "_netrc", ".pgpass"),
    *(".my.cnf", ".htpasswd", ".pypirc", ".npmrc", ".git-credentials", ".vault-token"),
    *("credentials*", "secrets*", "*.secret", "token", "token.*", "*.token", "*_token"),
    *("*_token.txt", ".huggingface", ".aws", ".ssh", ".docker", ".kube", ".gnupg"),
)
"""Names of files and folders that hold secrets."""

_NEVER_DATA = (
    *("*credential*", "client_secret*", "*api_key*", "*api-key*", "*apikey*", "kubeconfig*"),
    *(f"*secret*.{suffix}" for suffix in ("json", "yaml", "yml", "toml")),
)
"""Names of files that hold secrets, unless they are `_WRITTEN`: modules are named after them, too.
"""

_WRITTEN = (
    *(".py", ".pyi", ".js", ".ts", ".jsx", ".tsx", ".html", ".css", ".c", ".h", ".cpp", ".rs"),
    *(".go", ".md", ".rst"),
)
"""How files end that are written for the package, source and documentation."""

_CACHES = (
    *(".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", "*.py[co]"),
    *("*.egg-info", "build", "dist", ".tox", ".nox", ".*_cache", ".cache", ".coverage*"),
    *(".ipynb_checkpoints", ".idea", ".vscode", ".DS_Store", "outputs", "uv.lock", "wandb"),
    # Of the Space itself: they are made anew.
    LIBRARY,
)
"""Names of what is of this machine alone."""

_SECRETS = {
    "a token of the Hugging Face Hub": rb"\bhf_[A-Za-z0-9]{30,}",
    "a token of GitHub": rb"\b(gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,})",
    "a key of OpenAI or Anthropic": rb"\bsk-[A-Za-z0-9_-]{32,}",
    "a key of AWS": rb"\bA[KS]IA[0-9A-Z]{16}\b",
    "a secret key of AWS": rb"(?i)\baws_secret_access_key[\"']?\s*[:=]\s*[\"']?[a-z0-9/+]{40}"
    rb"(?![a-z0-9/+])",
    "a token of GitLab": rb"\bglpat-[A-Za-z0-9_-]{20,}",
    "a token of Slack": rb"\bxox[abeprs]-[0-9]{8,}-[A-Za-z0-9-]{16,}",
    "a token of PyPI": rb"\bpypi-AgE[A-Za-z0-9_-]{60,}",
    "a key of Google": rb"\bAIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])",
    "a private key": rb"-----BEGIN [A-Z ]*PRIVATE KEY-----",
}

_SOURCES = re.compile(
    r"\n*# Where uv finds the library that made this package[^\n]*\n\[tool\.uv\.sources\]\n"
    r"openenv-gym = [^\n]*\n"
)


@dataclass(frozen=True)
class Upload:
    """What is sent.

    Attributes:
        files: Content by path.
        left_out: Paths that are not sent, with the reason.
        library: How many of the files are this library's.
        header: What the README of the Space begins with.
    """

    files: Mapping[str, bytes]
    left_out: Mapping[str, str]
    library: int
    header: str


def collect(folder: Path, manifest: Manifest, exclude: Sequence[str] = ()) -> Upload:
    """Collect what a Space is made of.

    Args:
        folder: Folder of the environment package.
        manifest: Its manifest.
        exclude: Patterns of further paths that are not sent.

    Raises:
        ConfigurationError: A file holds what looks like a secret, or something is missing; or
            nobody can tell what ``.gitignore`` means.
    """
    files: dict[str, bytes] = {}
    left_out: dict[str, str] = {}
    for path, why in _walk(folder, folder, exclude):
        name = path.relative_to(folder).as_posix()
        if why:
            left_out[name] = why
        else:
            files[name] = path.read_bytes()
    for name in ignored(folder, list(files)):
        del files[name]
        left_out[name] = "ignored by git"
    _check_secrets(files)
    for name in ("pyproject.toml", "openenv.yaml", "server/Dockerfile"):
        if name not in files:
            raise ConfigurationError(
                f"A Space of {folder} cannot be made: {name} is missing, or is left out.",
                field="path",
            )
    library = _library_files()
    header, readme = _readme(files.get("README.md", b"").decode(), manifest)
    project = _SOURCES.sub("\n", files["pyproject.toml"].decode())
    files["pyproject.toml"] = (project.rstrip("\n") + "\n").encode()
    files["README.md"] = readme.encode()
    files["Dockerfile"] = _dockerfile(
        library["servers/base/Dockerfile"].decode(), files["server/Dockerfile"].decode()
    ).encode()
    files[".dockerignore"] = (
        files.get(".dockerignore", b"").rstrip(b"\n") + f"\n!{LIBRARY}\n".encode()
    ).lstrip(b"\n")
    files.update({f"{LIBRARY}/{name}": content for name, content in library.items()})
    return Upload(files, left_out, len(library), header)


def _walk(top: Path, folder: Path, exclude: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """Yield every file, and every folder that is left out, with the reason ("" for none)."""
    for path in sorted(folder.iterdir()):
        name = path.relative_to(top).as_posix()
        why = ""
        if path.is_symlink():
            why = "a link"
        elif _matches(path.name, _NEVER) or (path.is_file() and _is_secret_data(path.name)):
            why = "may hold a secret"
        elif _matches(path.name, _CACHES):
            why = "of this machine alone"
        elif any(fnmatch.fnmatch(name, each.rstrip("/")) for each in exclude):
            why = "excluded"
        if not why and path.is_dir():
            yield from _walk(top, path, exclude)
        elif why or path.is_file():
            yield path, why


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatch(name.lower(), pattern) for pattern in patterns)


def _is_secret_data(name: str) -> bool:
    name = name.lower()
    if name.startswith("id_") and "." not in name.removesuffix(".pub"):
        return True  # a key for SSH, such as id_work: modules have a suffix
    return not name.endswith(_WRITTEN) and _matches(name, _NEVER_DATA)


def _check_secrets(files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        for what, pattern in _SECRETS.items():
            if match := re.search(pattern, content):
                line = content.count(b"\n", 0, match.start()) + 1
                raise ConfigurationError(
                    f"{name}, line {line}, holds what looks like {what}. Nothing was uploaded.",
                    field="path",
                    hint=f"Take it out, or leave the file out: --exclude {name}",
                    data={"file": name, "line": line},
                )


def _library_files() -> dict[str, bytes]:
    from openenv_gym.providers.docker.contexts import library_context

    return {
        name: source if isinstance(source, bytes) else source.read_bytes()
        for name, source in library_context().files.items()
    }


def _dockerfile(base: str, own: str) -> str:
    """Return one Dockerfile of the base's stages and an environment's own.

    Args:
        base: The base's: its context is the library's source, and it ends with the base image.
        own: The environment's: it begins with ``BUILD_IMAGE`` and with ``BASE_IMAGE``.
    """
    globals_of_base, base = _split(base)
    globals_of_own, own = _split(own)
    stages = {"BUILD_IMAGE": "openenv-gym-build", "BASE_IMAGE": "openenv-gym-base"}
    base = re.sub(r"\bAS build\b", f"AS {stages['BUILD_IMAGE']}", base)
    base = re.sub(r"^FROM build\b", f"FROM {stages['BUILD_IMAGE']}", base, flags=re.MULTILINE)
    base = re.sub(r"--from=build\b", f"--from={stages['BUILD_IMAGE']}", base)
    *head, last = re.split(r"^(?=FROM )", base, flags=re.MULTILINE)
    base = "".join([*head, last.replace("\n", f" AS {stages['BASE_IMAGE']}\n", 1)])
    # What comes from the context is one folder further down there.
    base = re.sub(
        r"^COPY (?!--)(.+) (\S+)$",
        lambda match: (
            "COPY "
            + " ".join(f"{LIBRARY}/{source}" for source in match[1].split())
            + f" {match[2]}"
        ),
        base,
        flags=re.MULTILINE,
    )
    # The Hub keeps no modes.
    base = re.sub(
        r"^(COPY \S+/openenv-install (\S+/))$",
        r"\1\nRUN chmod 755 \2openenv-install",
        base,
        flags=re.MULTILINE,
    )
    known = {line.split("=")[0]: line for line in [*globals_of_base, *globals_of_own]}
    for name, stage in stages.items():
        known[f"ARG {name}"] = f"ARG {name}={stage}"
    return "\n".join(
        [
            "# Made by `openenv-gym push` of server/Dockerfile and of the library's own.",
            "",
            *known.values(),
            "",
            base.strip(),
            "",
            "# -- the environment -----------------------------------------------------------",
            "",
            own.strip(),
            "# Whoever finds the Space can play.",
            "ENV OPENENV_EXPOSURE=public",
            "",
        ]
    )


def _split(text: str) -> tuple[list[str], str]:
    """Split a Dockerfile into its global arguments and what begins with the first stage."""
    begin = re.search(r"^FROM ", text, re.MULTILINE)
    head = text[: begin.start()] if begin else text
    # A comment right above the first stage belongs to it.
    arguments = [line for line in head.splitlines() if line.startswith("ARG ")]
    return arguments, text[begin.start() :] if begin else ""


def _readme(text: str, manifest: Manifest) -> tuple[str, str]:
    """Return the header that the Hub reads, and the README with it.

    Fields that are there already stay, but for those without which it would not run.
    """
    import yaml

    header: dict[str, Any] = {}
    if match := re.match(r"---\n(.*?)\n---\n+", text, re.DOTALL):
        found = yaml.safe_load(match[1])
        header, text = (found if isinstance(found, dict) else {}), text[match.end() :]
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    defaults: dict[str, Any] = {
        "title": title[1] if title else manifest.name,
        "emoji": "🎮",
        "colorFrom": "blue",
        "colorTo": "green",
        "pinned": False,
        "short_description": manifest.description[:60],
    }
    if manifest.license and re.fullmatch(r"[\w.-]+", manifest.license):
        defaults["license"] = manifest.license.lower()
    header = {**defaults, **header, "sdk": "docker", "app_port": manifest.port}
    tags = header.get("tags")
    tags = [str(each) for each in tags] if isinstance(tags, list) else []
    header["tags"] = [*tags, *(each for each in ("openenv", "openenv-gym") if each not in tags)]
    dumped = yaml.safe_dump(header, sort_keys=False, allow_unicode=True)
    return dumped, f"---\n{dumped}---\n\n{text}"
