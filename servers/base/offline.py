#!/usr/bin/env python3
"""Make a stand-in for the official image with Python, where no registry can be reached.

The official image is Debian with an interpreter in ``/usr/local``. A Debian machine has all that
is in it: the stand-in holds the files of its essential packages, and this or another interpreter,
Debian's own included.

::

    .venv/bin/python servers/base/offline.py                       # local/python:3.11-slim
    .venv/bin/python servers/base/offline.py --python ~/.pyenv/versions/3.12.1
    .venv/bin/python servers/base/offline.py --if-needed           # only where nothing else is had

It prints the image's name, and does nothing where the image is there and nothing has changed.
"""

from __future__ import annotations

import argparse
import glob
import hashlib
import io
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from openenv_gym import errors
from openenv_gym.providers.docker.build import build_context, inspect, narrate, pull
from openenv_gym.providers.docker.contexts import Context
from openenv_gym.providers.docker.images import BASE_IMAGE_VARIABLE, OFFICIAL_BASE


KEY_LABEL = "openenv.stand-in"
STATUS = Path("/var/lib/dpkg/status")
INFO = "/var/lib/dpkg/info"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"

# Beside what is essential: what the official image has, and what wheels expect of a system.
PACKAGES = ("apt", "ca-certificates", "libgcc-s1", "libgomp1", "libstdc++6", "netbase", "tzdata")

# Of the machine's own settings: how it reaches package indexes, which holds for builds as well.
SETTINGS = (
    "/etc/apt/apt.conf.d/*",
    "/etc/apt/sources.list",
    "/etc/apt/sources.list.d/*",
    "/etc/ca-certificates.conf",
    "/etc/debian_version",
    "/etc/pip.conf",
    "/etc/ssl/certs/*",
    "/usr/local/share/ca-certificates/*",
)

DIRECTORIES = {
    "dev": 0o755, "etc/apt/sources.list.d": 0o755, "home": 0o755, "mnt": 0o755, "opt": 0o755,
    "proc": 0o555, "root": 0o700, "run": 0o755, "srv": 0o755, "sys": 0o555, "tmp": 0o1777,
    "usr/local/bin": 0o755, "usr/local/lib": 0o755, "var/cache/apt/archives/partial": 0o755,
    "var/lib/apt/lists/partial": 0o755, "var/lib/dpkg/alternatives": 0o755,
    "var/lib/dpkg/parts": 0o755, "var/lib/dpkg/triggers": 0o755, "var/lib/dpkg/updates": 0o755,
    "var/log": 0o755, "var/tmp": 0o1777,
}  # fmt: skip

DEBIANS = Path("/usr")  # prefix of the interpreter that is a package itself

NOT_COPIED = re.compile(r"/usr/share/(man|doc|locale|info|lintian|bug|doc-base|i18n)/.|/boot/.")
NOT_OF_PYTHON = {"idlelib", "lib2to3", "site-packages", "test", "tkinter"}

DOCKERFILE = """\
FROM scratch
ADD root.tar /
ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \\
    PIP_CERT={certificates} SSL_CERT_FILE={certificates}
RUN ldconfig && dpkg --audit && {get_pip} && python3 -m pip --version && \\
    python3 -m compileall -q -j 0 {libraries} && \\
    python3 -c "import bz2, ctypes, lzma, sqlite3, ssl, venv, zlib"
CMD ["python3"]
"""


def main() -> int:
    """Make the image and print its name."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", type=Path, default=Path(sys.base_prefix), metavar="PREFIX")
    parser.add_argument("--tag", help="name of the image (default: local/python:X.Y-slim)")
    parser.add_argument(
        "--if-needed",
        action="store_true",
        help=f"take what {BASE_IMAGE_VARIABLE} names, or {OFFICIAL_BASE} where it can be had",
    )
    options = parser.parse_args()
    from openenv_gym.providers.docker.daemon import connect_daemon

    try:
        client = connect_daemon()
        if options.if_needed and (name := _other_base(client)):
            print(name)
            return 0
        print(make_stand_in(client, options.python, options.tag))
    except (errors.OpenEnvGymError, OSError) as error:
        print(f"offline.py: {error}", file=sys.stderr)
        return 1
    return 0


def make_stand_in(client: Any, prefix: Path, tag: str | None = None) -> str:
    """Make the image where it is missing or of another make, and return its name.

    Args:
        client: docker-py's client.
        prefix: Where the interpreter is installed: ``PREFIX/bin/python3.11``.
        tag: Name of the image.

    Raises:
        ImageBuildError: This machine has not what it takes.
    """
    version = _version(prefix)
    name = tag or f"local/python:{version}-slim"
    key = _key(prefix)
    facts = inspect(client, name)
    if facts and ((facts.get("Config") or {}).get("Labels") or {}).get(KEY_LABEL) == key:
        return name
    own = prefix != DEBIANS
    narrate(f"making {name} from this machine's Debian packages and Python {version} ...")
    with tempfile.TemporaryDirectory(prefix="openenv-stand-in-") as directory:
        archive = Path(directory, "root.tar")
        with tarfile.open(archive, "w") as tar:
            root = _Root(tar)
            if own:
                _add_system(root, _needed_libraries(prefix, version))
                _add_python(root, prefix, version)
            else:
                _add_system(root, [], [f"python{version}", "python3-pip"])
                for link in ("python", "python3"):
                    root.put_link(f"usr/local/bin/{link}", f"/usr/bin/python{version}")
        dockerfile = DOCKERFILE.format(
            certificates=CERTIFICATES,
            get_pip="python3 -m ensurepip --default-pip" if own else "true",
            libraries=f"/usr/local/lib/python{version}"
            if own
            else f"/usr/lib/python{version} /usr/lib/python3/dist-packages",
        ).encode()
        context = Context("stand-in", "Dockerfile", {"Dockerfile": dockerfile, "root.tar": archive})
        build_context(client, context, name, arguments={}, labels={KEY_LABEL: key})
    return name


def _other_base(client: Any) -> str | None:
    """Return an image with Python that makes a stand-in unnecessary."""
    if chosen := os.environ.get(BASE_IMAGE_VARIABLE):
        return chosen
    if inspect(client, OFFICIAL_BASE) is not None:
        return OFFICIAL_BASE
    stand_in = f"local/python:{_version(Path(sys.base_prefix))}-slim"
    if inspect(client, stand_in) is not None:  # asking a registry again would take its time
        return None
    try:
        pull(client, OFFICIAL_BASE)
    except errors.ImageNotFoundError as error:
        narrate(f"{error.message} A stand-in does as well:")
        return None
    return OFFICIAL_BASE


def _version(prefix: Path) -> str:
    if not STATUS.is_file():
        raise errors.ImageBuildError(
            f"A stand-in for {OFFICIAL_BASE} is made of Debian's packages, and this is no Debian.",
            hint=f"Load an image with Python, and name it in {BASE_IMAGE_VARIABLE}.",
        )
    names = sorted(path.name for path in prefix.glob("bin/python3.*"))
    versions = [name[6:] for name in names if re.fullmatch(r"python3\.\d+", name)]
    if not versions:
        raise errors.ImageBuildError(
            f"No interpreter is installed in {prefix}; expected bin/python3.X there.",
            hint="Name the prefix of one with --python.",
        )
    if prefix == DEBIANS and "python3-pip" not in _installed():
        raise errors.ImageBuildError(
            "The stand-in needs pip, and Debian's package of it is not installed.",
            hint="apt install python3-pip",
        )
    return versions[0]


def _key(prefix: Path) -> str:
    """Return what changes whenever the image has to be made anew."""
    digest = hashlib.sha256(str(prefix).encode())
    for path in (Path(__file__), Path(CERTIFICATES)):
        digest.update(path.read_bytes())
    installed = _installed()
    for name in _closure(installed, _roots(installed)):
        digest.update(f"{name} {installed[name]['Version']}\n".encode())
    return digest.hexdigest()[:16]


class _Root:
    """A tar archive that becomes the image's root; files keep their owners and modes."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self.names: set[str] = set()

    def add(self, path: str) -> None:
        """Add a file or directory of this machine, and the directories above it."""
        # Through links of directories: /bin is one, and belongs to no package.
        path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        if NOT_COPIED.match(path) or path in self.names or not os.path.lexists(path):
            return
        if not any(
            test(os.lstat(path).st_mode) for test in (stat.S_ISDIR, stat.S_ISREG, stat.S_ISLNK)
        ):
            return
        if (parent := os.path.dirname(path)) != "/":
            self.add(parent)
        self.names.add(path)
        self._tar.add(path, path[1:], recursive=False)

    def put(self, name: str, content: bytes, mode: int = 0o644) -> None:
        """Add a file of this content."""
        member = tarfile.TarInfo(name)
        member.size, member.mode = len(content), mode
        self._tar.addfile(member, io.BytesIO(content))

    def put_directory(self, name: str, mode: int) -> None:
        """Add a directory."""
        member = tarfile.TarInfo(name)
        member.type, member.mode = tarfile.DIRTYPE, mode
        self._tar.addfile(member)

    def put_link(self, name: str, target: str) -> None:
        """Add a symbolic link."""
        member = tarfile.TarInfo(name)
        member.type, member.linkname = tarfile.SYMTYPE, target
        self._tar.addfile(member)

    def put_tree(self, source: Path, name: str, skip: set[str]) -> None:
        """Add a directory of this machine under another name, as root's."""

        def owned(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
            below = member.name[len(name) + 1 :]
            # Bytecode of the usual kind comes along, valid because times do too.
            if below.split("/")[0] in skip or re.search(r"\.opt-\d\.pyc$", below):
                return None
            member.uid = member.gid = 0
            member.uname = member.gname = "root"
            return member

        self._tar.add(source, name, filter=owned)


def _add_system(root: _Root, libraries: Iterable[str], further: Iterable[str] = ()) -> None:
    installed = _installed()
    packages = _closure(installed, [*_roots(installed), *_owners(libraries), *further])
    for link in ("bin", "sbin", "lib", "lib64", "lib32", "libx32"):
        if os.path.islink(f"/{link}"):
            root.put_link(link, os.readlink(f"/{link}"))
    for package in packages:
        for pattern in (f"{package}.*", f"{package}:*.*"):
            for path in glob.glob(f"{INFO}/{pattern}"):
                root.add(path)
                if path.endswith(".list"):
                    for line in Path(path).read_text().splitlines():
                        root.add(line)
    root.add(f"{INFO}/format")
    for pattern in SETTINGS:
        for path in glob.glob(pattern):
            root.add(path)
    for name, mode in DIRECTORIES.items():
        if f"/{name}" not in root.names:
            root.put_directory(name, mode)
    _add_alternatives(root)
    status = "\n".join(installed[name]["Block"] for name in packages)
    root.put("var/lib/dpkg/status", f"{status}\n".encode())
    for name in ("available", "diversions", "statoverride", "lock", "lock-frontend"):
        root.put(f"var/lib/dpkg/{name}", b"")
    users = Path("/usr/share/base-passwd/passwd.master").read_bytes()
    root.put("etc/passwd", users)
    root.put("etc/group", Path("/usr/share/base-passwd/group.master").read_bytes())
    shadow = [
        line.partition(":")[0] + ":*:19000:0:99999:7:::" for line in users.decode().splitlines()
    ]
    root.put("etc/shadow", "\n".join([*shadow, ""]).encode(), 0o600)


def _add_alternatives(root: _Root) -> None:
    """Add the links below ``/etc/alternatives`` whose target is there."""
    for link in glob.glob("/etc/alternatives/*"):
        administration = Path("/var/lib/dpkg/alternatives", os.path.basename(link))
        if os.path.realpath(link) in root.names and administration.is_file():
            root.add(link)
            root.add(str(administration))
            root.add(administration.read_text().splitlines()[1])


def _add_python(root: _Root, prefix: Path, version: str) -> None:
    program = prefix / "bin" / f"python{version}"
    root.put(f"usr/local/bin/python{version}", program.read_bytes(), 0o755)
    for name in ("python3", "python"):
        root.put_link(f"usr/local/bin/{name}", f"python{version}")
    for path in prefix.glob("lib/libpython*.so*"):
        if path.is_symlink():
            root.put_link(f"usr/local/lib/{path.name}", os.readlink(path))
        else:
            root.put(f"usr/local/lib/{path.name}", path.read_bytes(), 0o755)
    library = f"lib/python{version}"
    config = {path.name for path in (prefix / library).glob("config-*")}  # for C programs
    root.put_tree(prefix / library, f"usr/local/{library}", NOT_OF_PYTHON | config)
    root.put_directory(f"usr/local/{library}/site-packages", 0o755)


def _installed() -> dict[str, dict[str, str]]:
    """Return the fields of each installed package, and its whole block, by its name."""
    packages: dict[str, dict[str, str]] = {}
    for block in STATUS.read_text(encoding="utf-8").split("\n\n"):
        fields = {"Block": block.strip() + "\n"}
        for line in block.splitlines():
            key, colon, value = line.partition(":")
            if colon and not line.startswith((" ", "\t")):
                fields[key] = value.strip()
        if fields.get("Status", "").endswith(" ok installed"):
            packages.setdefault(fields["Package"], fields)
    return packages


def _roots(installed: dict[str, dict[str, str]]) -> list[str]:
    return [*(name for name, facts in installed.items() if "Essential" in facts), *PACKAGES]


def _closure(installed: dict[str, dict[str, str]], names: Iterable[str]) -> list[str]:
    """Return packages with all that they depend on."""
    providers: dict[str, str] = {}
    for name, fields in installed.items():
        for virtual in _alternatives(fields.get("Provides", "")):
            providers.setdefault(virtual[0], name)
    wanted: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in wanted or name not in installed:
            continue
        wanted.add(name)
        for field in ("Depends", "Pre-Depends"):
            for choice in _alternatives(installed[name].get(field, "")):
                waiting += [other for other in choice if other in installed][:1] or [
                    providers[other] for other in choice if other in providers
                ][:1]
    return sorted(wanted)


def _alternatives(field: str) -> Iterator[list[str]]:
    """Split ``a (>= 1) | b, c`` into the names ``[a, b]`` and ``[c]``."""
    for group in filter(None, re.split(r",\s*", field)):
        yield [word.split()[0].partition(":")[0] for word in group.split("|")]


def _needed_libraries(prefix: Path, version: str) -> list[str]:
    """Return the paths of the system's libraries that the interpreter and its modules load."""
    modules = [
        str(path)
        for path in prefix.glob(f"lib/python{version}/lib-dynload/*.so")
        if not path.name.startswith(("_tkinter", "_test"))
    ]
    command = ["ldd", str(prefix / "bin" / f"python{version}"), *modules]
    output = subprocess.run(command, capture_output=True, text=True).stdout
    paths = set(re.findall(r"=> (/\S+)", output))
    return sorted(path for path in paths if not path.startswith(str(prefix)))


def _owners(paths: Iterable[str]) -> list[str]:
    """Return the packages that these files belong to."""
    owners: set[str] = set()
    query = shutil.which("dpkg-query") or "dpkg-query"
    for path in paths:
        real = os.path.realpath(path)
        # Packages name their files as before /lib became a link to /usr/lib.
        names = {path, real, real.removeprefix("/usr")}
        output = subprocess.run([query, "--search", *names], capture_output=True, text=True).stdout
        owners.update(line.partition(":")[0] for line in output.splitlines() if ": " in line)
    return sorted(owners)


if __name__ == "__main__":
    sys.exit(main())
