"""Vector sessions: several environments behind one request and one reply."""

from openenv_gym.server.vector.host import VectorHost
from openenv_gym.server.vector.native import NativeRequest
from openenv_gym.server.vector.options import VectorOptions, read_vector_options


__all__ = ["NativeRequest", "VectorHost", "VectorOptions", "read_vector_options"]
