"""What a program writes: its head and its tail are kept, and what lies between is counted."""

from __future__ import annotations

import codecs
import contextlib
import os
import re

from coding_env.models import CHARACTERS, MAX_OUTPUT


__all__ = ["Kept", "Output", "clean"]

_HALF_BYTES = MAX_OUTPUT // 2 - 50  # of the head, and of the tail; the note has its place between
_READ_BYTES = 1 << 18
_ODD = re.compile(f"[^{re.escape(CHARACTERS)}]")


def clean(text: str) -> str:
    r"""Write what the observation's space has no character for as an escape, such as ``\x1b``."""
    return _ODD.sub(lambda found: _escape(found[0]), text)


def _escape(character: str) -> str:
    if ord(character) < 0x80:
        return f"\\x{ord(character):02x}"
    return character.encode("ascii", "backslashreplace").decode()


class Kept:
    """Output of one step, as text that lies in its space.

    Attributes:
        text: All of it, or head and tail with a note between them.
        cut_bytes: How many bytes were cut out.
    """

    def __init__(self, head: bytes, tail: bytes, total: int) -> None:
        data = head + tail
        whole = clean(data.decode("utf-8", "backslashreplace"))
        if total == len(data) and len(whole) <= MAX_OUTPUT:
            self.text, self.cut_bytes = whole, 0
            return
        first, last = data[:_HALF_BYTES], data[_HALF_BYTES:][-_HALF_BYTES:]
        # Escapes are longer than what they stand for.
        while (length := len(_first(first))) > _HALF_BYTES:
            first = first[: len(first) * _HALF_BYTES // length]
        while (length := len(_last(last))) > _HALF_BYTES:
            last = last[-(len(last) * _HALF_BYTES // length) :]
        self.cut_bytes = total - len(first) - len(last)
        note = f"\n[... {self.cut_bytes} bytes cut ...]\n"
        self.text = _first(first) + note + _last(last)


class Output:
    """The reading end of a pipe, on which a program writes.

    Attributes:
        descriptor: It; reading does not block.
    """

    def __init__(self) -> None:
        self.descriptor, self._other = os.pipe()
        os.set_blocking(self.descriptor, False)
        self._head = self._tail = b""
        self._total = 0

    def give(self) -> int:
        """Return the writing end, for somebody else to have."""
        return self._other

    def given(self) -> None:
        """Close the writing end here."""
        os.close(self._other)

    def read(self) -> int | None:
        """Read once what is there.

        Returns:
            How many bytes there were; 0 where nobody can write any more, None where nothing is
            there yet.
        """
        try:
            data = os.read(self.descriptor, _READ_BYTES)
        except BlockingIOError:
            return None
        self._total += len(data)
        room = _HALF_BYTES - len(self._head)
        self._head += data[:room]
        if len(data) > room:
            self._tail = (self._tail + data[room:])[-_HALF_BYTES:]
        return len(data)

    def take(self) -> Kept:
        """Return what was read since the last time."""
        kept = Kept(self._head, self._tail, self._total)
        self._head = self._tail = b""
        self._total = 0
        return kept

    def close(self) -> None:
        """Close the reading end."""
        with contextlib.suppress(OSError):
            os.close(self.descriptor)


def _first(data: bytes) -> str:
    """Write the beginning of something; a character that was cut in two leaves nothing behind."""
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    return clean(decoder.decode(data))


def _last(data: bytes) -> str:
    """Write the end of something, likewise."""
    for _ in range(3):
        if data and data[0] & 0xC0 == 0x80:
            data = data[1:]
    return clean(data.decode("utf-8", "backslashreplace"))
