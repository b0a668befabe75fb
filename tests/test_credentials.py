"""Tokens from files and from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from openenv_gym import errors
from openenv_gym.credentials import read_token, token_of_process


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\x00\xff", b"one\ntwo", b"caf\xc3\xa9"])
def test_a_token_file_without_a_token_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(errors.InvalidOptionError, match=r"token file .*token"):
        read_token(path)


def test_a_token_file_with_a_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    assert read_token(tmp_path / "token") == "s3cret"


def test_what_the_environment_says(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("of a file\n")
    assert token_of_process({}) is None
    assert token_of_process({"OPENENV_TOKEN": "", "OPENENV_TOKEN_FILE": ""}) is None
    assert token_of_process({"OPENENV_TOKEN_FILE": str(path)}) == "of a file"
    both = {"OPENENV_TOKEN": "itself", "OPENENV_TOKEN_FILE": str(path)}
    assert token_of_process(both) == "itself"


def test_a_variable_is_read_as_a_file_is() -> None:
    assert token_of_process({"OPENENV_TOKEN": "s3cret\n"}) == "s3cret"


@pytest.mark.parametrize("text", [" \n", "one\ntwo", "caf\xe9", "\udcff"])
def test_a_variable_without_a_token_is_refused(text: str) -> None:
    with pytest.raises(errors.InvalidOptionError, match="OPENENV_TOKEN holds no token") as caught:
        token_of_process({"OPENENV_TOKEN": text})
    assert caught.value.field == "OPENENV_TOKEN"
