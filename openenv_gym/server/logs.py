"""Logs of a server process: a line for each record, for people or as JSON.

What a peer or an environment has said may stand in a record. Neither form lets it pass for a
record of its own, or do anything to a terminal.
"""

from __future__ import annotations

import datetime
import json
import logging
from enum import Enum
from typing import Any

from openenv_gym import errors


__all__ = ["LogFormat", "log_to_stderr"]

_FIELDS = ("session", "peer")
"""What a record may say beside its text (``extra=``)."""


class LogFormat(str, Enum):
    """How records are written."""

    TEXT = "text"
    JSON = "json"


def log_to_stderr(*, debug: bool, form: LogFormat = LogFormat.TEXT, worker: str = "") -> None:
    """Set logging up, for a process that does nothing else.

    Args:
        debug: Log everything, for whoever looks for a fault.
        form: How records are written.
        worker: What this process is called, where it is one of several.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter(worker) if form is LogFormat.JSON else TextFormatter(worker))
    logging.basicConfig(level=logging.DEBUG if debug else logging.INFO, handlers=[handler])
    # At DEBUG it logs the heads of requests, and with them the token.
    logging.getLogger("websockets").setLevel(logging.INFO)


class TextFormatter(logging.Formatter):
    """A line for people; what follows its first line is indented.

    Args:
        worker: What this process is called; empty where there is no other.
    """

    def __init__(self, worker: str = "") -> None:
        who = f"[{worker}] " if worker else ""
        super().__init__(f"%(asctime)s %(levelname)s {who}%(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        return errors.printable(super().format(record)).replace("\n", "\n    ")


class JsonFormatter(logging.Formatter):
    """An object in one line: ``time`` (UTC), ``level``, ``logger``, ``message``, and what it knows.

    Args:
        worker: What this process is called; empty where there is no other.
    """

    def __init__(self, worker: str = "") -> None:
        super().__init__()
        self._worker = worker

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        time = datetime.datetime.fromtimestamp(record.created, datetime.timezone.utc)
        fields: dict[str, Any] = {
            "time": time.isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if self._worker:
            fields["worker"] = self._worker
        for name in _FIELDS:
            if (value := getattr(record, name, None)) is not None:
                fields[name] = value
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)
