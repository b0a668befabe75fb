"""Packets: messages as MessagePack, large arrays beside it (docs/protocol.md, sections 2 and 3).

A packet is encoded to a list of buffers, so that a large array goes from the environment's memory
to the socket without being copied; a decoded array is a view of the received packet.

========================= ==================================================================
`encoding`, `decoding`    packets
`shared`                  packets whose buffers are in memory that both sides have mapped
`unsendable`              which value could not be encoded
`conversion`              values of every type, to what MessagePack knows
`arrays`, `scalars`       those that have a dtype, and large numbers; both ways
`dtypes`                  dtypes and shapes as plain data; both ways
`head`                    what a receiver must know of a head before MessagePack is let at it
`format`                  the numbers of the protocol
========================= ==================================================================
"""

from openenv_gym.protocol.codec.arrays import INLINE_LIMIT_BYTES
from openenv_gym.protocol.codec.decoding import decode_packet
from openenv_gym.protocol.codec.encoding import encode_packet, packet_size
from openenv_gym.protocol.codec.format import ALIGNMENT_BYTES
from openenv_gym.protocol.codec.shared import move_buffers


__all__ = [
    "ALIGNMENT_BYTES",
    "INLINE_LIMIT_BYTES",
    "decode_packet",
    "encode_packet",
    "move_buffers",
    "packet_size",
]
