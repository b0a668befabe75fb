"""Build the documentation's site: ``python3 dev.py docs``, or ``--serve`` to watch it being edited.

The pages are those of the repository, where they are read as well. They are copied to one folder
with links that lead there: ``docs/`` as it is, the README as the first page, the READMEs of the
environments, and a page for each public module with the docstrings of its ``__all__``. Zensical
makes HTML of them, and then it is checked that each link leads somewhere and nothing is fetched
from other hosts.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml


ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "site"
PAGES, HTML, CONFIG = BUILD / "pages", BUILD / "html", BUILD / "mkdocs.yml"
LIBRARY = ROOT / "openenv_gym"
SHIM = "site/iframe-worker.js"
NO_REFERENCE = {"cli"}
"""Public modules that are no API: `docs/command.md` is about this one."""


class SiteError(Exception):
    """The site cannot be built; the text says what to mend."""


def main() -> int:
    """Build, and serve where that is asked for; return the exit status."""
    parser = argparse.ArgumentParser(prog="dev.py docs", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--serve", action="store_true", help="serve it, and build after each edit")
    parser.add_argument("--port", type=int, default=8000, help="with --serve")
    arguments = parser.parse_args()
    try:
        begin = time.monotonic()
        count = stage()
        if arguments.serve:
            return _serve(arguments.port)
        _run_zensical("build", "--strict", "--clean")
        _bring_the_shim()
        if problems := [*check(HTML)]:
            raise SiteError("\n".join(problems))
    except SiteError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    seconds = time.monotonic() - begin
    print(f"{count} pages in {seconds:.1f} s: {os.path.relpath(HTML / 'index.html')}")
    return 0


# -- pages --------------------------------------------------------------------------------------


def stage() -> int:
    """Put all pages, other files and the configuration into the folder that is built from.

    Returns:
        The number of pages.

    Raises:
        SiteError: A page has no place in the navigation, or a link leads to no file of the site.
    """
    sources = {path.relative_to(ROOT).as_posix(): page for path, page in _files()}
    texts = {
        page: _with_links_of_the_site((ROOT / source).read_text(encoding="utf-8"), source, sources)
        for source, page in sources.items()
        if page.endswith(".md")
    }
    texts.update(_reference())
    config = yaml.safe_load((ROOT / "docs/site/mkdocs.yml").read_text(encoding="utf-8"))
    config["nav"] = _expand(config["nav"], set(texts))
    if forgotten := set(texts) - set(_pages_of(config["nav"])):
        raise SiteError(
            f"no place in `nav` of docs/site/mkdocs.yml: {', '.join(sorted(forgotten))}"
        )
    config.update(docs_dir=PAGES.name, site_dir=HTML.name)  # beside the configuration
    handler = next(each for each in config["plugins"] if isinstance(each, dict))["mkdocstrings"]
    handler["handlers"]["python"]["paths"] = [str(ROOT)]
    _write(CONFIG, yaml.safe_dump(config, sort_keys=False))
    for page, text in texts.items():
        _write(PAGES / page, text)
    for source, page in sources.items():
        if page not in texts:
            (PAGES / page).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / source, PAGES / page)
    for path in PAGES.rglob("*.md"):
        if path.relative_to(PAGES).as_posix() not in texts:
            path.unlink()
    return len(texts)


def _files() -> Iterator[tuple[Path, str]]:
    """Yield what goes to the site, with its path there."""
    yield ROOT / "README.md", "index.md"
    yield ROOT / "CONTRIBUTING.md", "contributing.md"
    yield ROOT / "CHANGELOG.md", "changelog.md"
    for path in sorted(ROOT.glob("envs/*/README.md")):
        yield path, f"envs/{path.parent.name}.md"
    for path in sorted(ROOT.glob("examples/*.py")):
        yield path, f"examples/{path.name}"
    for path in sorted((ROOT / "docs").rglob("*")):
        if path.suffix in (".md", ".css", ".js", ".gif", ".png", ".svg", ".jpg", ".webp", ".mp4"):
            yield path, path.relative_to(ROOT / "docs").as_posix()


def _with_links_of_the_site(text: str, source: str, sources: dict[str, str]) -> str:
    here = os.path.dirname(sources[source])

    def lead(match: re.Match[str]) -> str:
        path, mark, anchor = match[1].partition("#")
        if urlsplit(match[1]).scheme or not path:
            return match[0]
        target = os.path.normpath(os.path.join(os.path.dirname(source), path))
        if target not in sources:
            raise SiteError(f"{source}: the link to {match[1]} leads to no page of the site")
        return f"]({os.path.relpath(sources[target], here)}{mark}{anchor})"

    fences = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    fences[::2] = [re.sub(r"\]\(([^()\s]+)\)", lead, part) for part in fences[::2]]
    return "".join(fences)


def _reference() -> dict[str, str]:
    """Return a page for each public module: every name of its ``__all__``, by its docstring."""
    pages = {}
    modules = [*LIBRARY.glob("*.py"), *LIBRARY.glob("*/__init__.py")]
    for path in sorted(modules):
        name = path.parent.name if path.name == "__init__.py" else path.stem
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = [value for key, value in _constants(tree) if key == "__all__"]
        if not names or name.startswith("_") or name in NO_REFERENCE:
            continue
        top = path.parent == LIBRARY and path.name == "__init__.py"
        dotted = "openenv_gym" if top else f"openenv_gym.{name}"
        homes = dict(_constants(tree)).get("_HOMES", {}) if top else {}
        lines = [f"# {dotted}", "", (ast.get_docstring(tree) or "").replace("::\n", ":\n"), ""]
        rendered = []
        for each in names[0]:
            home = f"{homes.get(each, dotted)}.{each}"
            if top and home.count(".") == 2:  # it stands on the page of that module
                lines.append(f"- [`{each}`][{home}]")
            elif each == "errors":
                lines.append(f"- [`{each}`](openenv_gym.errors.md)")
            elif not each.startswith("_"):
                rendered.append(f"::: {home}")
        lines += ["", *rendered]
        pages[f"reference/{dotted}.md"] = "\n".join(lines) + "\n"
    return pages


def _constants(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name, value = node.target.id, node.value or ast.Constant(None)
        else:
            continue
        try:
            yield name, ast.literal_eval(value)
        except ValueError:
            continue


def _expand(nav: list[Any], pages: set[str]) -> list[Any]:
    """Replace patterns by the pages that there are, and leave out those that there are not."""
    expanded: list[Any] = []
    for item in nav:
        ((title, value),) = item.items()
        if isinstance(value, list):
            if inner := _expand(value, pages):
                expanded.append({title: inner})
        elif "*" in value:
            found = {Path(page).stem: page for page in pages if Path(page).match(value)}
            expanded.append({title: [{name: found[name]} for name in sorted(found)]})
        elif value in pages:
            expanded.append({title: value})
    return expanded


def _pages_of(nav: Iterable[Any]) -> Iterator[str]:
    for item in nav:
        for value in item.values():
            yield from [value] if isinstance(value, str) else _pages_of(value)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # What is as it was keeps its time: a site that is served is built anew for edits alone.
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


# -- HTML ---------------------------------------------------------------------------------------


def _command(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).with_name("zensical")), *arguments, "-f", str(CONFIG)]


def _run_zensical(*arguments: str) -> None:
    done = subprocess.run(
        _command(*arguments), cwd=BUILD, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    # Griffe only warns of a docstring that does not fit its signature.
    warned = re.findall(r"^griffe: .*", done.stdout, re.MULTILINE)
    if done.returncode or warned:
        raise SiteError(done.stdout.partition("\nTraceback")[0])


def _serve(port: int) -> int:
    with subprocess.Popen(_command("serve", "-a", f"127.0.0.1:{port}"), cwd=BUILD) as process:
        try:
            while process.poll() is None:
                time.sleep(1)
                try:
                    stage()
                except SiteError as error:
                    print(error, file=sys.stderr)
        except KeyboardInterrupt:
            process.terminate()
            raise
    return process.returncode


def _bring_the_shim() -> None:
    """Have pages take the one script from here that Zensical takes from another host."""
    for path in HTML.rglob("*.html"):
        here = os.path.relpath(HTML / SHIM, path.parent)
        text = path.read_text(encoding="utf-8")
        path.write_text(
            text.replace("https://unpkg.com/iframe-worker/shim", here), encoding="utf-8"
        )


class _Page(HTMLParser):
    """What a page of HTML refers to, and what can be referred to there.

    Attributes:
        links: Addresses of other pages.
        fetched: Addresses of what a browser fetches to show the page.
        anchors: Names of places.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take what a tag refers to."""
        values = {key: value or "" for key, value in attrs}
        self.anchors |= {values[key] for key in ("id", "name") if key in values}
        if "href" in values:
            named = self.links if tag == "a" or values.get("rel") == "canonical" else self.fetched
            named.append(values["href"])
        if "src" in values:
            self.fetched.append(values["src"])


def check(folder: Path) -> Iterator[str]:
    """Yield what is wrong with a site: links to nowhere, and what other hosts would serve."""
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}
    for path, page in pages.items():
        name = path.relative_to(folder)
        for address in page.links + page.fetched:
            url = urlsplit(address)
            if url.scheme or url.netloc:
                if address in page.fetched and url.scheme != "data":
                    yield f"{name}: would fetch {address}"
                continue
            # Addresses of 404.html begin with a slash: it is shown in whatever folder.
            base = folder if url.path.startswith("/") else path.parent
            target = (base / unquote(url.path).lstrip("/")).resolve() if url.path else path
            if not target.exists():
                yield f"{name}: {address} leads nowhere"
            elif url.fragment and target in pages:
                anchors = pages[target].anchors
                if unquote(url.fragment) not in anchors and not url.fragment.startswith("__"):
                    yield f"{name}: {address}: there is no such place"
    for path in folder.rglob("*.css"):
        for address in re.findall(r"url\(\s*['\"]?(https?:[^)'\"]+)", path.read_text("utf-8")):
            yield f"{path.relative_to(folder)}: would fetch {address}"


if __name__ == "__main__":
    sys.exit(main())
