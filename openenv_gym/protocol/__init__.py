"""The protocol ``openenv-gym.v1`` without I/O; docs/protocol.md is its specification.

`frames` cuts a byte stream into WebSocket messages, `codec` turns a message into values and back,
`messages` gives them their form, `client_session` and `server_session` keep the state of a session.
"""
