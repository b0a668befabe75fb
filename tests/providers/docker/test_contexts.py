"""What images are built from; no daemon is needed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from openenv_gym.providers.docker import contexts


def test_an_editor_that_has_a_file_open_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "openenv_gym"
    shutil.copytree(contexts._PACKAGE / "protocol", package / "protocol")
    contexts.library_context()  # which keeps what it is told once, of the library itself
    monkeypatch.setattr(contexts, "_PACKAGE", package)
    before = contexts.library_context().digest()
    (package / ".#errors.py").symlink_to("somebody@host.1234:567")
    assert contexts.library_context().digest() == before
