"""Clients: thin shells that move the protocol's bytes; they know nothing of Gymnasium's `Env`."""

from openenv_gym.client.address import (
    Address,
    ChannelAddress,
    InboundAddress,
    Loss,
    TcpAddress,
    UnixAddress,
    not_lost,
    parse_base_url,
)
from openenv_gym.client.connection import Connection, Timing


__all__ = [
    "Address",
    "ChannelAddress",
    "Connection",
    "InboundAddress",
    "Loss",
    "TcpAddress",
    "Timing",
    "UnixAddress",
    "not_lost",
    "parse_base_url",
]
