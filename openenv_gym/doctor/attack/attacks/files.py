"""Attacks on files: writing where nothing is to be written, and filling what can be written."""

from __future__ import annotations


__all__ = ["devices", "fill_inodes", "fill_shared_memory", "fill_temporary", "links", "write_root"]


def write_root() -> tuple[bool, str]:
    """Write to the root file system, and to where the programs are."""
    import errno
    import os

    refusals = set()
    for place in ("/", "/etc", "/usr/bin", "/opt", "/opt/venv", "/var", "/home", "/run"):
        path = os.path.join(place, "openenv-attack")
        try:
            open(path, "w").close()
            os.unlink(path)
            return True, f"wrote {path}"
        except OSError as error:
            refusals.add(errno.errorcode.get(error.errno or 0, "?"))
    return False, ", ".join(sorted(refusals))


def fill_temporary(bound_bytes: int) -> tuple[bool, str]:
    """Write more to the temporary directory than fits."""
    import os
    import tempfile

    path = os.path.join(tempfile.gettempdir(), "openenv-attack")
    written, chunk = 0, bytes(1 << 16)
    try:
        with open(path, "wb", buffering=0) as file:
            while written <= bound_bytes:
                written += file.write(chunk)
        return True, f"{written >> 20} MiB written"
    except OSError as error:
        return False, f"{error.strerror} after {written >> 20} MiB"
    finally:
        if os.path.exists(path):
            os.unlink(path)


def fill_inodes(bound: int) -> tuple[bool, str]:
    """Make more files than there may be."""
    import os
    import shutil
    import tempfile

    place = os.path.join(tempfile.gettempdir(), "openenv-attack-files")
    os.mkdir(place)
    count = 0
    try:
        while count <= bound:
            os.close(os.open(f"{place}/{count}", os.O_CREAT | os.O_WRONLY))
            count += 1
        return True, f"{count} files"
    except OSError as error:
        return False, f"{error.strerror} after {count} files"
    finally:
        shutil.rmtree(place, ignore_errors=True)


def fill_shared_memory(bound_bytes: int) -> tuple[bool, str]:
    """Write more to /dev/shm than fits: it is writable where the root is read-only."""
    import os

    path, written = "/dev/shm/openenv-attack", 0
    try:
        with open(path, "wb", buffering=0) as file:
            while written <= bound_bytes:
                written += file.write(bytes(1 << 16))
        return True, f"{written >> 20} MiB written"
    except OSError as error:
        return False, f"{error.strerror} after {written >> 10} KiB"
    finally:
        if os.path.exists(path):
            os.unlink(path)


def links(mount: str) -> tuple[bool, str]:
    """Leave a link to /proc/1/root where the owner's own files are, for the owner to follow."""
    import errno
    import os

    refusals = set()
    for root in ("", "/proc/self/root", "/proc/1/root"):
        path = f"{root}{mount}/openenv-attack"
        try:
            os.symlink("/proc/1/root", path)
            os.unlink(path)
            return True, f"made {path}"
        except OSError as error:
            refusals.add(errno.errorcode.get(error.errno or 0, "?"))
    return False, ", ".join(sorted(refusals))


def devices() -> tuple[bool, str]:
    """Make the node of a disk, to read it past all file systems."""
    import os
    import stat
    import tempfile

    path = os.path.join(tempfile.gettempdir(), "openenv-attack-disk")
    os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(7, 0))
    os.unlink(path)
    return True, "made the node of a disk"
