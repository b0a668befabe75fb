"""Encoders are used again and again: by several threads, inside each other, after failures."""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc
from typing import Any

import numpy as np
import pytest

from openenv_gym.errors import EncodeError
from openenv_gym.protocol.codec import decode_packet, encode_packet

from .packets import round_trip, strict_equal


def test_a_failure_leaves_nothing_behind() -> None:
    array = np.zeros(1000)
    for _ in range(3):
        with pytest.raises(EncodeError):
            encode_packet([array, (array, object())])
        assert strict_equal(round_trip((array,)), (array,))


def test_threads_encode_at_once() -> None:
    message = [17, 7, [np.arange(4.0), (1, (2, np.arange(1000)))], {"x": np.float32(1)}]
    expected = b"".join(encode_packet(message))
    wrong: list[bytes] = []

    def encode() -> None:
        for _ in range(300):
            data = b"".join(encode_packet(message))
            if data != expected or not strict_equal(
                decode_packet(memoryview(bytearray(data))), message
            ):
                wrong.append(data)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=encode) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def test_encoding_inside_of_encoding() -> None:
    class Nosy(dict):  # type: ignore[type-arg]
        def items(self) -> Any:
            raise AssertionError

        def __iter__(self) -> Any:
            encode_packet([(1, np.zeros(1000))])
            return super().__iter__()

        def keys(self) -> Any:
            encode_packet([(1, np.zeros(1000))])
            return super().keys()

    value = (Nosy(a=np.ones(1000)), np.zeros(1000))
    assert strict_equal(round_trip(value), ({"a": np.ones(1000)}, np.zeros(1000)))


def test_large_buffers_are_not_kept() -> None:
    """Not even until the garbage collector finds them."""
    text = "x" * 2**22
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(3):
            encode_packet([text])
            encode_packet([((text,),)])
            with pytest.raises(EncodeError):
                encode_packet([text, (text,), object()])
        assert tracemalloc.get_traced_memory()[0] < 2**23
    finally:
        tracemalloc.stop()
        gc.enable()
