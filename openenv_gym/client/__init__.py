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
from openenv_gym.client.connection import Connection
from openenv_gym.client.gather import gather
from openenv_gym.client.pending import Pending, Timing


__all__ = [
    "Address",
    "ChannelAddress",
    "Connection",
    "InboundAddress",
    "Loss",
    "Pending",
    "TcpAddress",
    "Timing",
    "UnixAddress",
    "gather",
    "not_lost",
    "parse_base_url",
]
