"""Several processes behind one address: worker processes, or a process for each session."""

from openenv_gym.server.workers.options import WorkerOptions
from openenv_gym.server.workers.supervisor import Supervisor


__all__ = ["Supervisor", "WorkerOptions"]
