"""The documentation's site: what it is made of has its place, and what is wrong with it is found.

That it builds is for ``python3 dev.py docs``, which needs the generator.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import openenv_gym
from docs.site import build


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have pages put together in a folder of this test's own, and return it."""
    monkeypatch.setattr(build, "PAGES", tmp_path / "pages")
    monkeypatch.setattr(build, "CONFIG", tmp_path / "mkdocs.yml")
    return tmp_path / "pages"


def test_each_page_has_its_place(site: Path) -> None:
    count = build.stage()
    pages = {path.relative_to(site).as_posix() for path in site.rglob("*.md")}
    assert len(pages) == count
    assert {"index.md", "protocol.md", "tutorials/lab.md", "envs/echo_env.md"} <= pages
    first = (site / "index.md").read_text(encoding="utf-8")
    assert "](envs/finrl_env.md)" in first and "](security.md)" in first


def test_a_page_that_nobody_placed_is_named(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_reference", lambda: {"stray.md": "# Stray\n"})
    with pytest.raises(build.SiteError, match=r"no place in `nav` .*stray\.md"):
        build.stage()


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    build.stage()
    texts = [path.read_text(encoding="utf-8") for path in (site / "reference").glob("*.md")]
    for name in openenv_gym.__all__:
        shown = name in ("__version__",) or any(f".{name}" in text for text in texts)
        assert shown, name
    assert "::: openenv_gym.errors.CapacityError\n" in "".join(texts)


def test_links_are_those_of_the_site() -> None:
    sources = {
        "docs/a.md": "a.md",
        "README.md": "index.md",
        "envs/x_env/README.md": "envs/x_env.md",
    }
    text = "[1](../README.md#b) [2](https://host/a.md) [3](#c)\n```\n[4](gone.md)\n```\n"
    moved = build._with_links_of_the_site(text, "docs/a.md", sources)
    assert moved == text.replace("../README.md", "index.md")
    moved = build._with_links_of_the_site("[1](../../docs/a.md)", "envs/x_env/README.md", sources)
    assert moved == "[1](../a.md)"
    with pytest.raises(build.SiteError, match=r"docs/a\.md: the link to gone\.md"):
        build._with_links_of_the_site("[1](gone.md)", "docs/a.md", sources)


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ('<a href="b.html#here">', ""),
        ('<a href="https://elsewhere.example/">', ""),
        ('<a href="gone.html">', "gone.html leads nowhere"),
        ('<a href="b.html#gone">', "there is no such place"),
        ('<script src="https://cdn.example/x.js"></script>', "would fetch https://cdn.example"),
        ('<link rel="stylesheet" href="//cdn.example/x.css">', "would fetch //cdn.example"),
        ('<img src="gone.png">', "gone.png leads nowhere"),
    ],
)
def test_what_is_wrong_with_a_site_is_found(body: str, wrong: str, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(body)
    (tmp_path / "b.html").write_text('<h2 id="here">Here</h2>')
    problems = "\n".join(build.check(tmp_path))
    assert wrong in problems and bool(problems) == bool(wrong)


def test_a_style_that_fetches_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("@font-face { src: url(https://fonts.example/x.woff2) }")
    assert [*build.check(tmp_path)] == ["a.css: would fetch https://fonts.example/x.woff2"]
