"""``openenv-gym push``: an environment package as a Space of the Hub, or into a registry."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from openenv_gym.cli.folders import read_folder
from openenv_gym.errors import ConfigurationError, InvalidOptionError, TransportError


if TYPE_CHECKING:
    from openenv_gym.cli.upload import Upload
    from openenv_gym.models.manifest import Manifest

__all__ = ["push"]

T = TypeVar("T")

_TRIES = 3
_PAUSE_S = 1.0  # before the second try; before the third one twice that
_HUB = "https://huggingface.co"
_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")

_REGISTRY = re.compile(r"[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*/?")


@click.command()
@click.argument("path", default=".", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "-r",
    "--repo-id",
    metavar="USER/NAME",
    help="The Space; by default yours, with the name of the package.",
)
@click.option("--private", is_flag=True, help="A Space that only its owners see.")
@click.option("--create-pr", is_flag=True, help="Propose the change in place of making it.")
@click.option(
    "--exclude",
    multiple=True,
    metavar="PATTERN",
    help="Files that stay here, such as 'notes/*'; may be given several times.",
)
@click.option(
    "--registry",
    metavar="HOST/NAME",
    help="Build the image and send it to this container registry, in place of a Space.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be sent.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def push(
    path: Path,
    repo_id: str | None,
    private: bool,
    create_pr: bool,
    exclude: tuple[str, ...],
    registry: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Upload the environment package in PATH (by default here) to a Hugging Face Space.

    The Space serves it to everybody who sees it, and is a git repository that pip installs. Files
    that hold secrets by their names (.env, keys, tokens), that git ignores, and caches are never
    sent; a file that holds what looks like a token ends the command before anything is sent. Log
    in with `hf auth login`, or set HF_TOKEN.

    \b
    openenv-gym push --dry-run
    openenv-gym push --repo-id me/burrow --private
    openenv-gym push --registry registry.example.com/me
    """  # noqa: D301
    try:
        if registry is not None and (repo_id or private or create_pr or exclude):
            raise InvalidOptionError(
                "--registry takes an image, and no options of a Space.", field="registry"
            )
        if registry is not None and not _REGISTRY.fullmatch(registry):
            raise InvalidOptionError(
                f"--registry {registry!r:.120} is no place in a registry.",
                field="registry",
                hint="Expected HOST/NAME in lower case, such as registry.example.com/me.",
            )
        if repo_id is not None and not _REPO.fullmatch(repo_id):
            raise InvalidOptionError(
                f"--repo-id {repo_id!r:.120} is no Space.",
                field="repo_id",
                hint="Expected USER/NAME.",
            )
        manifest = read_folder(path)
    except InvalidOptionError as error:
        raise click.UsageError(str(error)) from error
    if registry is not None:
        answer = _to_registry(path, manifest, registry, dry_run)
    else:
        answer = _to_space(path, manifest, repo_id, private, create_pr, exclude, dry_run)
    if as_json:
        click.echo(json.dumps(answer))
        return
    for line in answer["lines"]:
        click.echo(line)


def _to_registry(folder: Path, manifest: Manifest, registry: str, dry_run: bool) -> dict[str, Any]:
    from openenv_gym.cli.build import build_folder
    from openenv_gym.providers.docker.build import push as push_image
    from openenv_gym.providers.docker.daemon import connect_daemon
    from openenv_gym.providers.docker.images import image_name

    image = image_name(manifest.name, f"{registry.rstrip('/')}/{manifest.image}")
    if dry_run:
        return {"image": image, "lines": [f"would build {image} and push it"]}
    client = connect_daemon()
    build_folder(client, folder, manifest, image)
    digest = push_image(client, image)
    return {"image": image, "digest": digest, "lines": [f"{image} is pushed", digest]}


def _to_space(
    folder: Path,
    manifest: Manifest,
    repo_id: str | None,
    private: bool,
    create_pr: bool,
    exclude: Sequence[str],
    dry_run: bool,
) -> dict[str, Any]:
    from openenv_gym.cli.upload import collect

    upload = collect(folder.resolve(), manifest, exclude)
    if dry_run:
        repo = repo_id or f"YOU/{manifest.short_name}"
        return _facts(upload, repo, private, dry_run=True)
    hub = _Hub()
    repo = repo_id or f"{hub.user()}/{manifest.short_name}"
    hub.prepare(repo, private=private, create_pr=create_pr)
    said = f"Upload {manifest.name} {manifest.version}"
    url = hub.commit(repo, upload, said, create_pr=create_pr)
    return _facts(upload, repo, private, url=url)


def _facts(
    upload: Upload, repo: str, private: bool, *, dry_run: bool = False, url: str = ""
) -> dict[str, Any]:
    from openenv_gym.cli.upload import LIBRARY

    own = sorted(name for name in upload.files if not name.startswith(f"{LIBRARY}/"))
    size = sum(map(len, upload.files.values()))
    kind = "private" if private else "public"
    what = f"{len(own)} files, and {upload.library} of the library, {size / 1e6:.1f} MB"
    if dry_run:
        lines = [f"would upload to the {kind} Space {repo}: {what}"]
        lines += [f"    {name}" for name in own]
        lines += [f"    not {name}: {why}" for name, why in upload.left_out.items()]
        lines += ["README.md would begin with:", *(f"    {x}" for x in upload.header.splitlines())]
    else:
        place = f"git+{_endpoint()}/spaces/{repo}"
        lines = [
            f"uploaded to {url}: {what}",
            f"not sent: {', '.join(upload.left_out) or 'nothing'}",
            f"pip install {place}",
            f'where the library is missing: pip install "{place}#subdirectory={LIBRARY}" {place}',
        ]
    return {
        "repo_id": repo,
        "private": private,
        "url": url,
        "files": own,
        "left_out": dict(upload.left_out),
        "lines": lines,
    }


class _Hub:
    """The Hub, as the one who is logged in sees it.

    Raises:
        ConfigurationError: Nobody is, or the client is missing.
    """

    def __init__(self) -> None:
        try:
            import huggingface_hub
        except ImportError as error:
            raise ConfigurationError(
                "The Hub's client is not installed.", hint='pip install "openenv-gym[hub]"'
            ) from error
        token = huggingface_hub.get_token()
        if token is None:
            raise ConfigurationError(
                f"There is no token for {_endpoint()}.",
                field="token",
                hint="Run `hf auth login`, or set HF_TOKEN; it needs the right to write. "
                "--dry-run needs none.",
            )
        self._api = huggingface_hub.HfApi(endpoint=_endpoint(), token=token)

    def user(self) -> str:
        """Return who is logged in."""
        return str(self._ask("see who you are", self._api.whoami)["name"])

    def prepare(self, repo: str, *, private: bool, create_pr: bool) -> None:
        """Make a Space where there is none.

        Raises:
            ConfigurationError: There is one that everybody sees, and it was to be private.
        """
        from huggingface_hub.errors import RepositoryNotFoundError

        def look() -> Any:
            try:
                return self._api.space_info(repo)
            except RepositoryNotFoundError:
                return None

        found = self._ask(f"look for {repo}", look)
        if found is not None:
            if private and not found.private:
                raise ConfigurationError(
                    f"The Space {repo} is there already, and everybody sees it. Nothing was "
                    "uploaded.",
                    field="private",
                    hint="Make it private in its settings on the Hub, or leave --private away.",
                )
            return
        if create_pr:
            raise ConfigurationError(
                f"There is no Space {repo} to propose a change to.",
                field="create_pr",
                hint="Leave --create-pr away, and it is made.",
            )
        self._ask(
            f"make the Space {repo}",
            lambda: self._api.create_repo(
                repo, repo_type="space", space_sdk="docker", private=private, exist_ok=True
            ),
        )

    def commit(self, repo: str, upload: Upload, message: str, *, create_pr: bool) -> str:
        """Send all files in one commit, so that there is never half of it; return where it is."""
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        from openenv_gym.cli.upload import LIBRARY

        present = self._ask(
            f"list the files of {repo}",
            lambda: list(self._api.list_repo_files(repo, repo_type="space")),
        )
        # Of this library alone: what else is there may be somebody's who named the wrong Space.
        gone = [n for n in present if n.startswith(f"{LIBRARY}/") and n not in upload.files]

        def send() -> Any:
            # Made anew for each try: the client notes in them what it has sent.
            operations: list[CommitOperationAdd | CommitOperationDelete] = [
                *(CommitOperationAdd(name, data) for name, data in sorted(upload.files.items())),
                *(CommitOperationDelete(name) for name in gone),
            ]
            return self._api.create_commit(
                repo, operations, commit_message=message, repo_type="space", create_pr=create_pr
            )

        click.echo(f"uploading {len(upload.files)} files to {repo} ...", err=True)
        done = self._ask(f"upload to {repo}", send)
        return str((done.pr_url if create_pr else None) or f"{_endpoint()}/spaces/{repo}")

    def _ask(self, what: str, ask: Callable[[], T]) -> T:
        """Ask, and again where the Hub, or the way there, has a moment of weakness.

        Raises:
            ConfigurationError: The Hub refuses.
            TransportError: It does not answer, or fails again and again.
        """
        from huggingface_hub.errors import HfHubHTTPError

        for number in range(1, _TRIES + 1):
            try:
                return ask()
            except HfHubHTTPError as error:
                status = getattr(error.response, "status_code", None)
                why = f"{status}, {error.server_message or 'without a reason'}"
                if status is not None and status < 500 and status != 429:
                    raise ConfigurationError(
                        f"The Hub refuses to {what}: {why}.",
                        hint="See to the name, and to what your token may do: `hf auth whoami`.",
                    ) from error
                last: Exception = error
            except OSError as error:
                last, why = error, str(error)
            except Exception as error:
                # Of whichever HTTP client the Hub's one is built on: they share no class.
                if not re.match(r"httpx2?|httpcore2?|requests|urllib3", type(error).__module__):
                    raise
                last, why = error, str(error) or type(error).__name__
            if number < _TRIES:
                click.echo(f"cannot {what} ({why}); trying again ...", err=True)
                time.sleep(_PAUSE_S * number)
        raise TransportError(
            f"The Hub at {_endpoint()} fails to {what}: {why}.",
            hint="What was there before is still there. The same command tries again.",
        ) from last


def _endpoint() -> str:
    return (os.environ.get("HF_ENDPOINT") or _HUB).rstrip("/")
