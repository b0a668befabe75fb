"""What uv installs, and by what it is found again."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from openenv_gym import errors
from openenv_gym.providers import ServerTarget, UvProvider
from openenv_gym.providers.uv import venvs
from openenv_gym.providers.uv.sources import copy_folder, source_of


def _package(folder: Path) -> Path:
    (folder / "sub").mkdir(parents=True)
    (folder / "pyproject.toml").write_text("[project]\nname = 'a'\n")
    (folder / "sub" / "a.py").write_text("A = 1\n")
    return folder


def test_another_content_has_another_digest(tmp_path: Path) -> None:
    folder = _package(tmp_path / "a")
    before = source_of("a", folder).digest
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "a.pyc").write_bytes(b"x")
    assert source_of("a", folder).digest == before
    (folder / "sub" / "a.py").write_text("A = 2\n")
    assert source_of("a", folder).digest != before


def test_what_links_lead_to_is_part_of_the_content(tmp_path: Path) -> None:
    folder, shared = _package(tmp_path / "a"), _package(tmp_path / "shared")
    (folder / "shared").symlink_to(shared)
    (folder / "sub" / "up").symlink_to(folder)
    (folder / ".#a.py").symlink_to("somebody@host.1234:567")  # an editor's lock
    before = source_of("a", folder).digest
    copy_folder(folder, tmp_path / "copy")
    assert source_of("a", tmp_path / "copy").digest == before
    assert (tmp_path / "copy" / "shared" / "sub" / "a.py").read_text() == "A = 1\n"
    (shared / "sub" / "a.py").write_text("A = 2\n")
    assert source_of("a", folder).digest != before


def test_an_installed_package_is_its_own_source() -> None:
    source = source_of("echo_env", None)
    assert source.folder is not None and (source.folder / "openenv.yaml").is_file()


def test_a_package_that_is_not_here() -> None:
    with pytest.raises(errors.UnknownEnvironmentError, match="no source of .*'nowhere_env'"):
        UvProvider().start(ServerTarget("nowhere_env"))


def test_a_folder_without_pyproject(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidOptionError, match="there is no pyproject.toml") as caught:
        UvProvider(tmp_path).start(ServerTarget("a"))
    assert caught.value.field == "source"


def _git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = _package(tmp_path / "repository")
    _git(folder, "init", "-q", "-b", "main")
    _git(folder, "add", ".")
    _git(folder, "commit", "-q", "-m", "one")
    _git(folder, "tag", "v1")
    return folder


def test_a_revision_is_pinned(repository: Path) -> None:
    head = source_of("a", f"git+file://{repository}")
    tagged = source_of("a", f"git+file://{repository}@v1")
    assert head == tagged
    commit = head.requirements[0].rpartition("@")[2]
    assert len(commit) == 40
    assert source_of("a", f"git+file://{repository}@{commit}") == head
    with pytest.raises(errors.ServerStartError, match="git finds no v2"):
        source_of("a", f"git+file://{repository}@v2")


def test_a_revision_is_taken_by_its_whole_name(repository: Path) -> None:
    one = _git(repository, "rev-parse", "HEAD")
    _git(repository, "tag", "-a", "v2", "-m", "two")
    _git(repository, "checkout", "-q", "-b", "feature/main")
    _git(repository, "commit", "-q", "--allow-empty", "-m", "another")
    _git(repository, "branch", "feature/v2")
    other = _git(repository, "rev-parse", "HEAD")
    found = {
        revision: source_of("a", f"git+file://{repository}@{revision}").requirements[0][-40:]
        for revision in ("main", "feature/main", "v2", "feature/v2", "refs/heads/main")
    }
    expected = {"main": one, "feature/main": other, "v2": one, "feature/v2": other}
    assert found == {**expected, "refs/heads/main": one}


@pytest.mark.parametrize(
    "place", ["https://host/a/b.git", "ssh://git@host/a/b", "https://user:secret@host:8443/a"]
)
def test_where_a_repository_ends_and_its_revision_begins(place: str) -> None:
    commit = "0123456789" * 4
    for end in ("", "#subdirectory=envs/one"):
        source = source_of("a", f"git+{place}@{commit}{end}")
        assert source.requirements == (f"git+{place}@{commit}{end}",)


@pytest.mark.parametrize("url", ["git+ext::sh -c id", "git+", "git+https:// a", "git+ftp://a/b"])
def test_no_address_of_a_repository(url: str) -> None:
    with pytest.raises(errors.InvalidOptionError, match="expected git"):
        source_of("a", url)


def test_without_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(venvs.sys, "executable", str(tmp_path / "python"))  # type: ignore[attr-defined]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(errors.ProviderUnavailableError, match=r"openenv-gym\[uv\]"):
        UvProvider().start(ServerTarget("echo_env"))
