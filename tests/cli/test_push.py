"""``openenv-gym push``: files, header, privacy, exclusions, failures, and no secret ever."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from openenv_gym.cli.init import write_package
from openenv_gym.cli.main import main
from tests.support.hub_of_uploads import HubOfUploads
from tests.support.interrupting import interrupt


TOKEN = "hf_" + "x" * 34


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return write_package("burrow_env", tmp_path, "basic")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubOfUploads]:
    pytest.importorskip("huggingface_hub")
    monkeypatch.setattr("openenv_gym.cli.push._PAUSE_S", 0.0)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: TOKEN)
    with HubOfUploads() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield hub


def _push(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["push", *map(str, arguments)])


def _files(hub: HubOfUploads, space: str = "me/burrow") -> dict[str, bytes]:
    files: dict[str, bytes] = hub.spaces[space]["files"]
    return files


def _header(readme: bytes) -> dict[str, Any]:
    _, header, _ = readme.decode().split("---\n", 2)
    read: dict[str, Any] = yaml.safe_load(header)
    return read


def test_a_space_is_made_and_filled(hub: HubOfUploads, package: Path) -> None:
    done = _push(package)
    assert done.exit_code == 0, done.output
    assert f"pip install git+{hub.url}/spaces/me/burrow\n" in done.stdout
    assert f"git+{hub.url}/spaces/me/burrow#subdirectory=.openenv-gym" in done.stdout
    assert hub.spaces["me/burrow"]["sdk"] == "docker" and not hub.spaces["me/burrow"]["private"]
    files = _files(hub)
    assert {"Dockerfile", "README.md", "openenv.yaml", "server/burrow_environment.py"} <= set(files)
    assert {".openenv-gym/pyproject.toml", ".openenv-gym/openenv_gym/__init__.py"} <= set(files)
    assert b"tool.uv.sources" not in files["pyproject.toml"]
    assert files["models.py"] == (package / "models.py").read_bytes()
    assert hub.tokens == {f"Bearer {TOKEN}"}
    assert TOKEN not in done.output


def test_the_readme_begins_with_what_a_space_needs(hub: HubOfUploads, package: Path) -> None:
    assert _push(package).exit_code == 0
    readme = _files(hub)["README.md"]
    header = _header(readme)
    assert (header["title"], header["sdk"], header["app_port"]) == ("Burrow", "docker", 8000)
    assert header["tags"] == ["openenv", "openenv-gym"]
    assert readme.decode().endswith((package / "README.md").read_text())


def test_a_header_of_ones_own_is_kept(hub: HubOfUploads, package: Path) -> None:
    text = "---\ntitle: My burrow\nsdk: gradio\nemoji: 🐭\ntags: [mice, openenv]\n---\n\n# Burrow\n"
    (package / "README.md").write_text(text)
    assert _push(package).exit_code == 0
    header = _header(_files(hub)["README.md"])
    assert (header["title"], header["emoji"], header["sdk"]) == ("My burrow", "🐭", "docker")
    assert header["tags"] == ["mice", "openenv", "openenv-gym"]


def test_private(hub: HubOfUploads, package: Path) -> None:
    assert _push(package, "--repo-id", "lab/secret-burrow", "--private").exit_code == 0
    assert hub.spaces["lab/secret-burrow"]["private"]


def test_what_shall_be_private_is_not_put_where_all_see_it(
    hub: HubOfUploads, package: Path
) -> None:
    assert _push(package).exit_code == 0
    done = _push(package, "--private")
    assert done.exit_code == 1 and "everybody sees it" in done.stderr
    assert len(hub.commits) == 1


SECRETS = [
    ".env",
    ".env.local",
    "server/.env",
    "token",
    "hf_token.txt",
    "id_rsa",
    "server/tls.pem",
    "credentials.json",
    ".netrc",
    ".ssh/config",
    "prod.env",
    "id_work",
    "id_work-laptop.pub",
    "id_ecdsa",
    "gcp-credentials.json",
    "client_secret_12.json",
    "my_secret.yaml",
    ".pgpass",
    ".htpasswd",
    "kubeconfig.yml",
    "server/release.jks",
    "release.keystore",
    "api_key.txt",
]
HARMLESS = [
    "id_utils.py",
    "id_maps/world.txt",
    "credential_store.py",
    "api_keys.md",
    "client_secrets.py",
    "secret_word.txt",
    "environment.txt",
]
CACHES = [
    "__pycache__/models.cpython-311.pyc",
    ".venv/lib/site.py",
    ".git/config",
    ".mypy_cache/x.json",
    "burrow_env.egg-info/PKG-INFO",
    "outputs/logs/run.txt",
]


def test_secrets_and_caches_stay_here(hub: HubOfUploads, package: Path) -> None:
    for name in [*SECRETS, *CACHES, *HARMLESS]:
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("fine" if name in HARMLESS else "hush")
    (package / "link").symlink_to("/etc/hostname")
    done = _push(package, "--json")
    assert done.exit_code == 0, done.output
    files = _files(hub)
    assert not [name for name, data in files.items() if data == b"hush"]
    assert "link" not in files and set(HARMLESS) <= set(files)
    left_out = json.loads(done.stdout)["left_out"]
    assert left_out[".env"] == "may hold a secret" and left_out["link"] == "a link"


@pytest.mark.parametrize(
    "secret",
    [
        TOKEN,
        "sk-" + "a1" * 20,
        "ghp_" + "b" * 36,
        "-----BEGIN RSA PRIVATE KEY-----",
        "aws_secret_access_key = " + "aB3/" * 10,
        "ASIA" + "A1" * 8,
        "xoxb-" + "1" * 12 + "-" + "a" * 24,
    ],
    ids=["hub", "openai", "github", "key", "aws", "aws-id", "slack"],
)
def test_a_secret_inside_a_file_is_found(secret: str, hub: HubOfUploads, package: Path) -> None:
    (package / "server" / "notes.py").write_text(f"A = 1\nB = '{secret}'\n")
    done = _push(package)
    assert done.exit_code == 1
    assert "server/notes.py, line 2" in done.stderr and secret not in done.output
    assert hub.spaces == {} and hub.commits == []
    assert _push(package, "--exclude", "server/notes.py").exit_code == 0
    assert "server/notes.py" not in _files(hub)


def test_exclusions(hub: HubOfUploads, package: Path) -> None:
    (package / "notes").mkdir()
    (package / "notes" / "idea.md").write_text("x")
    (package / "big.bin").write_text("x")
    assert _push(package, "--exclude", "notes", "--exclude", "*.bin").exit_code == 0
    assert not {"notes/idea.md", "big.bin"} & set(_files(hub))


SOURCE = """
PASSWORD = os.environ["PASSWORD"]
password: str = "swordfish"  # the word that players look for
aws_secret_access_key = os.environ["AWS_SECRET_ACCESS_KEY"]
risk-based-learning-of-agents-in-large-worlds
"""


def test_ordinary_source_is_no_secret(hub: HubOfUploads, package: Path) -> None:
    (package / "server" / "game.py").write_text(SOURCE)
    assert _push(package).exit_code == 0
    assert "server/game.py" in _files(hub)


@pytest.fixture
def ignoring(package: Path) -> Path:
    (package / "private.json").write_text("{}")
    (package / "server" / "notes.txt").write_text("hush")
    (package / ".gitignore").write_text("private.json\n")
    (package / "server" / ".gitignore").write_text("*.txt\n")
    return package


def _ignored_stay_here(hub: HubOfUploads, package: Path) -> None:
    done = _push(package, "--json")
    assert done.exit_code == 0, done.output
    assert not {"private.json", "server/notes.txt"} & set(_files(hub))
    assert json.loads(done.stdout)["left_out"]["private.json"] == "ignored by git"
    assert "models.py" in _files(hub)


def test_what_git_ignores_stays_here(hub: HubOfUploads, ignoring: Path) -> None:
    subprocess.run(["git", "init", "-q", str(ignoring)], check=True)
    _ignored_stay_here(hub, ignoring)


def test_likewise_where_there_is_no_repository(hub: HubOfUploads, ignoring: Path) -> None:
    _ignored_stay_here(hub, ignoring)


def test_likewise_where_git_trusts_it_not(
    hub: HubOfUploads, ignoring: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer = ignoring.parent
    subprocess.run(["git", "init", "-q", str(outer)], check=True)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    (ignoring / "models.txt").write_text("hush")
    (ignoring / "other.txt").write_text("hush")
    (outer / ".gitignore").write_text("models.txt\n")
    (outer / ".git" / "info" / "exclude").write_text("other.txt\n")
    _ignored_stay_here(hub, ignoring)
    assert not {"models.txt", "other.txt"} & set(_files(hub))


def test_likewise_where_a_repository_around_it_ignores_all_of_it(
    hub: HubOfUploads, ignoring: Path
) -> None:
    subprocess.run(["git", "init", "-q", str(ignoring.parent)], check=True)
    (ignoring.parent / ".gitignore").write_text(f"{ignoring.name}/\n")
    _ignored_stay_here(hub, ignoring)


def test_likewise_inside_a_hook_of_another_repository(
    hub: HubOfUploads, ignoring: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    _ignored_stay_here(hub, ignoring)


def test_without_git_nobody_knows_what_is_ignored(
    hub: HubOfUploads, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (package / ".gitignore").unlink()
    assert _push(package).exit_code == 0
    (package / ".gitignore").write_text("private.json\n")
    done = _push(package, "--repo-id", "me/other")
    assert done.exit_code == 1
    assert "There is a .gitignore" in done.stderr and "Install git" in done.stderr
    assert "me/other" not in hub.spaces


def test_a_change_is_proposed(hub: HubOfUploads, package: Path) -> None:
    done = _push(package, "--create-pr")
    assert done.exit_code == 1 and "no Space me/burrow to propose" in done.stderr
    assert _push(package).exit_code == 0
    before = dict(_files(hub))
    (package / "models.py").write_text("changed = True\n")
    done = _push(package, "--create-pr")
    assert done.exit_code == 0 and "/discussions/1" in done.stdout
    assert hub.proposals == 1 and _files(hub) == before


def test_of_the_library_nothing_old_stays_and_of_others_everything(
    hub: HubOfUploads, package: Path
) -> None:
    assert _push(package).exit_code == 0
    _files(hub).update({".openenv-gym/old.py": b"", "thesis.txt": b"precious"})
    assert _push(package).exit_code == 0
    assert ".openenv-gym/old.py" not in _files(hub) and "thesis.txt" in _files(hub)


def test_an_upload_that_fails_is_tried_again(hub: HubOfUploads, package: Path) -> None:
    hub.failures = [500, 503]
    done = _push(package)
    assert done.exit_code == 0, done.output
    assert done.stderr.count("trying again") == 2
    assert len(hub.commits) == 1 and "models.py" in _files(hub)


def test_one_that_fails_for_good_leaves_nothing_half_done(hub: HubOfUploads, package: Path) -> None:
    hub.failures = [500, 500, 500]
    done = _push(package)
    assert done.exit_code == 1 and "fails to upload" in done.stderr
    assert _files(hub) == {}
    assert _push(package).exit_code == 0  # the same command takes it up
    assert "models.py" in _files(hub)


def test_ctrl_c_leaves_a_space_as_it_was(
    hub: HubOfUploads, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _push(package).exit_code == 0
    before = dict(_files(hub))
    (package / "models.py").write_text("changed = True\n")
    hub.asked.clear()
    hub.free.clear()
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    said = interrupt("push", str(package), once=hub.asked.is_set)
    hub.free.set()
    assert "uploading" in said and "Aborted" in said
    assert _files(hub) == before
    assert _push(package).exit_code == 0 and _files(hub)["models.py"] == b"changed = True\n"


def test_a_refusal_is_not_tried_again(hub: HubOfUploads, package: Path) -> None:
    hub.failures = [403]
    done = _push(package)
    assert done.exit_code == 1 and "refuses" in done.stderr and "not today" in done.stderr
    assert hub.failures == [] and hub.commits == []


def test_a_hub_that_is_not_there(
    hub: HubOfUploads, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    done = _push(package)
    assert done.exit_code == 1 and "http://127.0.0.1:9 fails to" in done.stderr


def test_without_a_token(hub: HubOfUploads, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    done = _push(package)
    assert done.exit_code == 1 and "hf auth login" in done.stderr
    done = _push(package, "--dry-run", "--private")
    assert done.exit_code == 0 and "would upload to the private Space YOU/burrow" in done.stdout
    assert "    models.py" in done.stdout and "    app_port: 8000" in done.stdout
    assert hub.spaces == {} and hub.tokens == set()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--registry", ""], "HOST/NAME"),
        (["--registry", "Bad Host/.."], "HOST/NAME"),
        (["--registry", "https://host/me"], "HOST/NAME"),
        (["--repo-id", "burrow"], "USER/NAME"),
        (["--registry", "host/me", "--private"], "no options of a Space"),
    ],
)
def test_wrong_usage(arguments: list[str], told: str, package: Path) -> None:
    done = _push(package, *arguments)
    assert done.exit_code == 2 and told in done.stderr


def test_a_folder_without_an_environment(tmp_path: Path) -> None:
    done = _push(tmp_path)
    assert done.exit_code == 2 and "no openenv.yaml" in done.stderr
    assert _push(tmp_path / "nowhere").exit_code == 2


def test_a_registry_can_be_asked_for_dryly(package: Path) -> None:
    done = _push(package, "--registry", "registry.example.com/me", "--dry-run")
    assert done.exit_code == 0
    assert "registry.example.com/me/openenv-gym-burrow:" in done.stdout


@pytest.mark.uv
def test_pip_installs_what_was_pushed(hub: HubOfUploads, package: Path, tmp_path: Path) -> None:
    assert _push(package).exit_code == 0
    clone = tmp_path / "clone"
    for name, data in _files(hub).items():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_bytes(data)
    git = ["git", "-C", str(clone), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *command], check=True)
    target = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(target)]
    place = f"git+file://{clone}"
    # As on a machine that has neither: the Space has the library's source as well.
    subprocess.run([*pip, f"{place}#subdirectory=.openenv-gym", place], check=True)
    code = (
        "import burrow_env, openenv_gym; assert openenv_gym.__file__.startswith"
        f"({str(target)!r}); print('openenv/Burrow-v0' in __import__('gymnasium').registry)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
    )
    assert ended.stdout.strip() == "True", ended.stderr


def test_a_space_builds_without_an_image_that_no_registry_has(
    hub: HubOfUploads, package: Path
) -> None:
    assert _push(package).exit_code == 0
    files = _files(hub)
    text = files["Dockerfile"].decode()
    arguments = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.MULTILINE))
    stages: list[str] = []
    for line in re.findall(r"^FROM (.+)$", text, re.MULTILINE):
        name, _, stage = line.partition(" AS ")
        name = re.sub(r"\$\{(\w+)\}", lambda match: arguments[match[1]], name)
        assert name in (*stages, "python:3.11-slim")
        stages.append(stage)
    assert len(stages) == 5
    for sources in re.findall(r"^COPY (?!--)(.+) \S+$", text, re.MULTILINE):
        for source in sources.split():
            assert source == "." or [name for name in files if name.startswith(source)], source
    # The Hub keeps no modes.
    assert "RUN chmod 755 /usr/local/bin/openenv-install" in text
    assert files[".dockerignore"].endswith(b"!.openenv-gym\n")
    assert text.endswith("ENV OPENENV_EXPOSURE=public\n")
