"""What the scripted OpenEnv server of these tests says and does."""

from __future__ import annotations

from typing import Any

from tests.support.fake_openenv import FakeSession, counting, observation


__all__ = ["SCHEMA", "corridor", "lying"]

_NUMBER = {"type": "integer", "minimum": 0, "maximum": 1000}
SCHEMA = {
    "action": {
        "title": "Walk",
        "type": "object",
        "properties": {
            "direction": {"enum": ["LEFT", "RIGHT"]},
            "note": {"type": "object", "default": {}},
        },
        "required": ["direction"],
    },
    "observation": {
        "title": "Place",
        "type": "object",
        "properties": {
            "place": _NUMBER,
            "share": {"type": "number"},
            "done": {"type": "boolean"},
            "reward": {"type": "number"},
            "metadata": {"type": "object"},
            "anything": {},
        },
        "required": ["place", "share"],
    },
    "state": {"title": "State", "type": "object", "properties": {"step_count": _NUMBER}},
}


def corridor(session: FakeSession, message: dict[str, Any]) -> Any:
    """Walk from a place that the seed decides to place 10, in at most 20 steps."""
    kind, data = message["type"], message.get("data", {})
    if kind == "state":
        return counting(session, message)
    if kind == "reset":
        session.steps = 0
        session.place = data.get("start", (data.get("seed") or 0) % 5)  # type: ignore[attr-defined]
        return _seen(session, None, False, {"asked": data})
    session.steps += 1
    session.place += 1 if data["direction"] == "RIGHT" else -1  # type: ignore[attr-defined]
    there = session.place == 10  # type: ignore[attr-defined]
    late = session.steps == 20 and not there
    return _seen(session, 1 if there else -0.5, there or late, {"truncated": True} if late else {})


def _seen(session: Any, reward: Any, done: bool, metadata: dict[str, Any]) -> dict[str, Any]:
    place = session.place
    fields = {"place": abs(place), "share": place / 10, "anything": [place, None]}
    return observation(fields, reward, done, metadata=metadata)


def lying(change: Any) -> Any:
    """Return a script that changes what a step's reply says."""

    def script(session: FakeSession, message: dict[str, Any]) -> Any:
        reply = corridor(session, message)
        if message["type"] == "step" and message["data"]["direction"] == "LEFT":
            return change(reply) or reply
        return reply

    return script
