"""Chunks as bytes: heads, summaries, blocks (docs/recording.md, *The format*)."""

from __future__ import annotations

import importlib
import struct
import zlib
from typing import Any, NamedTuple

from openenv_gym.errors import DecodeError, InvalidOptionError, RecordingDamagedError
from openenv_gym.protocol.codec import decode_packet, encode_packet, packet_size


__all__ = [
    "CHUNK_HEAD",
    "INDEX",
    "MAX_SUMMARY_BYTES",
    "METADATA",
    "START",
    "STEPS",
    "TRAILER",
    "TRAILER_MAGIC",
    "VERSION",
    "BlockInfo",
    "Head",
    "Parts",
    "best_compression",
    "block_info",
    "chunk_bytes",
    "compress",
    "decompress",
    "pack",
    "parse_head",
    "parse_start",
    "parse_summary",
    "start_bytes",
    "unpack",
]

MAGIC = b"\x89OGREC\r\n"  # as PNG's: a transfer as text is noticed
VERSION = (1, 0)
START = struct.Struct("<8sHH4x")
CHUNK_HEAD = struct.Struct("<4sB3xIIQI4x")
TRAILER = struct.Struct("<Q8s")
TRAILER_MAGIC = b"OGRECEND"
METADATA, STEPS, INDEX = 1, 2, 3
MAX_SUMMARY_BYTES = 64 << 20

Parts = list[bytes | memoryview]
"""Bytes in pieces, one behind the other."""

_CHUNK = b"CHNK"
_CHECKED = struct.Struct("<4sB3xIIQ")  # what of a head its checksum covers
_NAMES = ("none", "zlib", "zstd")
_NONE, _ZLIB, _ZSTD = range(3)


class Head(NamedTuple):
    """The head of a chunk: its kind, its number, and the sizes of what follows, in bytes."""

    kind: int
    number: int
    summary_bytes: int
    body_bytes: int
    crc: int


class BlockInfo(NamedTuple):
    """What a summary says of a block."""

    compression: int
    stored_bytes: int
    raw_bytes: int
    crc: int


# -- values -------------------------------------------------------------------------------------


def pack(value: Any, name: str = "value") -> bytes:
    """Return a packet with one value.

    Raises:
        EncodeError: It cannot be kept; `field` is its path.
    """
    return b"".join(encode_packet([value], names=[name]))


def unpack(data: bytes | bytearray) -> Any:
    """Return the value of a packet.

    Raises:
        DecodeError: The bytes are none.
    """
    message = decode_packet(memoryview(data if isinstance(data, bytearray) else bytearray(data)))
    if len(message) != 1:
        raise DecodeError(f"A packet holds {len(message)} values, expected 1.")
    return message[0]


# -- compression --------------------------------------------------------------------------------


def best_compression(name: str | None) -> int:
    """Return the number of a compression; without a name, of the best that is installed.

    Raises:
        InvalidOptionError: There is none of that name, or its package is missing.
    """
    if name is None:
        return _ZLIB if _zstandard() is None else _ZSTD
    if name not in _NAMES:
        raise InvalidOptionError(
            f"compression={name!r:.40}: expected one of {', '.join(map(repr, _NAMES))}.",
            field="compression",
        )
    if name == "zstd" and _zstandard() is None:
        raise InvalidOptionError(
            "compression='zstd' needs the package zstandard.",
            field="compression",
            hint='pip install "openenv-gym[record]"',
        )
    return _NAMES.index(name)


def _zstandard() -> Any:
    try:
        return importlib.import_module("zstandard")
    except ModuleNotFoundError:
        return None


def compress(parts: Parts, compression: int) -> tuple[Parts, BlockInfo]:
    """Return a block as it is stored: as it is, where compression makes it no smaller.

    Levels are fast ones, as a step takes microseconds. Parts are not joined: they are large.

    Args:
        parts: The packet.
        compression: Its number.
    """
    size = packet_size(parts)
    stored = parts
    if compression != _NONE:
        if compression == _ZSTD:
            zip_ = _zstandard().ZstdCompressor(level=1).compressobj(size=size)
        else:
            zip_ = zlib.compressobj(1)
        packed = [*map(zip_.compress, parts), zip_.flush()]
        if packet_size(packed) < size:
            stored = packed
        else:
            compression = _NONE
    crc = 0
    for part in stored:
        crc = zlib.crc32(part, crc)
    return stored, BlockInfo(compression, packet_size(stored), size, crc)


def decompress(stored: bytes, info: BlockInfo) -> bytearray:
    """Return a block as it was; no more memory is taken than `info` says.

    Raises:
        RecordingDamagedError: The bytes are not those that were written.
        InvalidOptionError: Zstandard is missing here.
    """
    if zlib.crc32(stored) != info.crc:
        raise RecordingDamagedError("The checksum of a block is wrong.")
    if info.compression == _ZSTD and _zstandard() is None:
        best_compression("zstd")  # raises
    unpack_with = {_NONE: _as_it_is, _ZLIB: _unzip, _ZSTD: _bounded}.get(info.compression)
    if unpack_with is None:
        raise RecordingDamagedError(f"The compression {info.compression} is unknown.")
    raw = unpack_with(stored, info.raw_bytes)
    if len(raw) != info.raw_bytes:
        raise RecordingDamagedError("A block does not unpack to the size that it claims.")
    return bytearray(raw)


def _as_it_is(stored: bytes, size: int) -> bytes:
    return stored


def _unzip(stored: bytes, size: int) -> bytes:
    try:
        return zlib.decompressobj().decompress(stored, size + 1)
    except zlib.error as error:
        raise RecordingDamagedError(f"A block cannot be unpacked: {error}.") from error


def _bounded(stored: bytes, size: int) -> bytes:
    """Unpack Zstandard's frame, which says its size itself, or in pieces where it does not."""
    zstandard = _zstandard()
    try:
        claimed = zstandard.frame_content_size(stored)
        if claimed not in (-1, size):
            raise RecordingDamagedError("A block does not unpack to the size that it claims.")
        if claimed == size:
            raw: bytes = zstandard.ZstdDecompressor().decompress(stored, max_output_size=size)
            return raw
        with zstandard.ZstdDecompressor().stream_reader(stored) as reader:
            return bytes(reader.read(size + 1))
    except zstandard.ZstdError as error:
        raise RecordingDamagedError(f"A block cannot be unpacked: {error}.") from error


# -- chunks -------------------------------------------------------------------------------------


def start_bytes() -> bytes:
    """Return the start of a file."""
    return START.pack(MAGIC, *VERSION)


def parse_start(data: bytes) -> tuple[int, int]:
    """Return the version of a file.

    Raises:
        RecordingDamagedError: It is no recording, or of a version that is not known here.
    """
    if len(data) < START.size or not data.startswith(MAGIC):
        raise RecordingDamagedError(
            f"The file does not begin as a recording does, but with {data[:8]!r}.",
            hint="Recordings are made by RecordRollout, or by `openenv-gym rollout --out`.",
        )
    _, major, minor = START.unpack(data)
    if major != VERSION[0]:
        raise RecordingDamagedError(
            f"The recording has format {major}.{minor}; this library reads {VERSION[0]}.x.",
            hint="Read it with the version of the library that wrote it, or a newer one.",
        )
    return major, minor


def chunk_bytes(kind: int, number: int, summary: Any, blocks: Parts) -> Parts:
    """Return the parts of a chunk, to be written one behind the other."""
    packed = pack(summary, "summary")
    body_bytes = packet_size(blocks)
    checked = _CHECKED.pack(_CHUNK, kind, number, len(packed), body_bytes)
    crc = zlib.crc32(packed, zlib.crc32(checked))
    head = CHUNK_HEAD.pack(_CHUNK, kind, number, len(packed), body_bytes, crc)
    return [head, packed, *blocks]


def parse_head(data: bytes) -> Head:
    """Return the head of a chunk.

    Raises:
        RecordingDamagedError: There is none.
    """
    if len(data) < CHUNK_HEAD.size:
        raise RecordingDamagedError("The file ends within the head of a chunk.")
    magic, *fields = CHUNK_HEAD.unpack(data)
    head = Head(*fields)
    if magic != _CHUNK:
        raise RecordingDamagedError(f"A chunk begins with {magic!r}, expected {_CHUNK!r}.")
    if head.summary_bytes > MAX_SUMMARY_BYTES:
        raise RecordingDamagedError(
            f"A summary claims {head.summary_bytes} bytes; at most {MAX_SUMMARY_BYTES} are read."
        )
    return head


def parse_summary(head: Head, data: bytes) -> dict[str, Any]:
    """Return the summary behind a head.

    Raises:
        RecordingDamagedError: It is cut off, or not what was written.
    """
    if len(data) != head.summary_bytes:
        raise RecordingDamagedError("The file ends within the summary of a chunk.")
    checked = _CHECKED.pack(_CHUNK, *head[:4])
    if zlib.crc32(data, zlib.crc32(checked)) != head.crc:
        raise RecordingDamagedError("The checksum of a chunk's head is wrong.")
    try:
        summary = unpack(data)
    except DecodeError as error:
        raise RecordingDamagedError(f"A summary cannot be read: {error.message}") from error
    if type(summary) is not dict:
        raise RecordingDamagedError(f"A summary is a {type(summary).__name__}, expected a map.")
    return summary


def block_info(data: Any, limit_bytes: int) -> BlockInfo:
    """Return what a summary says of a block, checked.

    Raises:
        RecordingDamagedError: It is of another form, or claims too much.
    """
    if not isinstance(data, (list, tuple)) or len(data) != len(BlockInfo._fields):
        raise RecordingDamagedError(f"A block is described by {data!r:.60}.")
    if any(type(each) is not int or each < 0 for each in data):
        raise RecordingDamagedError(f"A block is described by {data!r:.60}.")
    info = BlockInfo(*data)
    if max(info.raw_bytes, info.stored_bytes) > limit_bytes:
        raise RecordingDamagedError(
            f"A block claims {info.raw_bytes} bytes; at most {limit_bytes} are read.",
            hint="Pass max_block_bytes= where you trust the file.",
        )
    return info
