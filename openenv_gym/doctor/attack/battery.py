"""Running the battery: each attack in a control container first, then in hardened ones."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from openenv_gym import errors
from openenv_gym.doctor.attack.attacks import network, others
from openenv_gym.doctor.attack.places import BOUNDS, Control, Hardened, Place
from openenv_gym.doctor.attack.rows import ROWS, Held, Row, Scene
from openenv_gym.doctor.attack.session import Outcome, Pulse


__all__ = ["Battery", "Finding"]

FLOOD_BYTES = 1 << 30
NEIGHBOUR_S = 5.0
"""How long a step of a neighbour may take while an attack runs."""

_SLACK_S = 15.0  # beyond the limit of a step, until its owner has an error
_GONE_S = 15.0  # after the end of a session, until nothing of it is left
_LOG_SLACK = 2  # times the bound: the daemon cuts a log between lines


@dataclass(frozen=True)
class Finding:
    """What came of one attack on one kind of server.

    Attributes:
        group: What the attack is about.
        name: What it does.
        where: ``"own"``: the server has one session; ``"shared"``: several sessions share it.
        control: Where it succeeded first; empty where it nowhere did.
        state: ``"held"``, ``"broke"``, or ``"void"`` where it shows nothing.
        detail: How it was held off, or what it got, or why it is void.
        neighbour_s: The longest step of a neighbour meanwhile; None where it was not tried.
    """

    group: str
    name: str
    where: str
    control: str
    state: str
    detail: str
    neighbour_s: float | None = None

    @property
    def slow(self) -> bool:
        """Whether a neighbour noticed it."""
        return self.neighbour_s is not None and self.neighbour_s > NEIGHBOUR_S


class Battery:
    """The attacks on one image. Use it as a context: it owns containers.

    Args:
        client: docker-py's client.
        image: Image with this library.
        flood_bytes: How much is written to the standard output of a hardened container.
        rows: The attacks.
    """

    def __init__(
        self,
        client: Any,
        image: str,
        *,
        flood_bytes: int = FLOOD_BYTES,
        rows: Iterable[Row] = ROWS,
    ) -> None:
        self._client = client
        self._image = image
        self._flood_bytes = flood_bytes
        self._rows = tuple(rows)
        self._places: dict[str, Place] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Battery:
        self._scene = self._set_scene()
        return self

    def __exit__(self, *exception: object) -> None:
        for place in self._places.values():
            place.stop()
        self._places.clear()
        self._stack.close()

    def run(self, say: Callable[[Finding], None] = lambda finding: None) -> list[Finding]:
        """Try all attacks, and return what came of them.

        Args:
            say: Takes each finding as soon as there is one.

        Raises:
            ProviderError: The daemon does not start containers of this image.
        """
        findings = []
        for row in self._rows:
            control, why = self._control(row)
            for where in [name for name in ("own", "shared") if getattr(row, name)]:
                finding = (
                    self._try(row, where, control)
                    if control
                    else Finding(row.group, row.name, where, "", "void", why)
                )
                findings.append(finding)
                say(finding)
        return findings

    # -- the scene ----------------------------------------------------------------------------

    def _set_scene(self) -> Scene:
        neighbour = self._place("plain").session.call(network.listen)
        return Scene(
            gateway=self._listen_at_gateway(),
            neighbour=tuple(neighbour) if isinstance(neighbour, list | tuple) else None,
            flood_bytes=self._flood_bytes,
        )

    def _listen_at_gateway(self) -> tuple[str, int] | None:
        """Listen on this machine's address of Docker's bridge, where it has one."""
        with contextlib.suppress(Exception):
            facts = self._client.api.inspect_network("bridge")
            address = str(facts["IPAM"]["Config"][0]["Gateway"])
            listener = self._stack.enter_context(socket.create_server((address, 0)))
            threading.Thread(target=_accept, args=(listener,), daemon=True).start()
            return address, listener.getsockname()[1]
        return None

    def _place(self, name: str, reach: str = "auto") -> Place:
        """Return a place, started where there is none of the kind yet."""
        key = f"{name}:{reach}"
        place = self._places.get(key)
        if place is None:
            if name in ("own", "shared"):
                place = Hardened(self._client, self._image, shared=name == "shared", reach=reach)
            else:
                place = Control(self._client, self._image, everything=name == "everything")
            self._places[key] = place
        return place

    def _drop(self, name: str, reach: str = "auto") -> float:
        """End a place; return how long that took."""
        place = self._places.pop(f"{name}:{reach}", None)
        return place.stop() if place else 0.0

    # -- one row ------------------------------------------------------------------------------

    def _control(self, row: Row) -> tuple[str, str]:
        """Return the control container in which an attack succeeds, or "" and why it does not."""
        reasons = []
        for name in ("plain", "everything"):
            place = self._place(name)
            arguments = row.arguments(self._scene, place)
            if arguments is None:
                return "", "cannot be tried here"
            outcome = place.session.attack(row.function, row.limit_s, **arguments)
            with self._tidied(row, name, outcome):
                if self._did(row, place, outcome):
                    return place.name, ""
            reasons.append(f"{place.name}: {outcome.fault or outcome.detail}")
        return "", "; ".join(reasons)

    def _did(self, row: Row, place: Place, outcome: Outcome) -> bool:
        """Tell whether an attack does what it is meant to where nothing stops it."""
        if row.held is Held.ENDED:
            return outcome.error is not None
        if row.function.__name__ == "flood":
            return outcome.succeeded and place.log_bytes() > _LOG_SLACK * BOUNDS.log_bytes
        if "marker" in (arguments := row.arguments(self._scene, place) or {}):
            # Its session ends, and what it left goes on.
            place.session.close()
            place.session = place.open()
            return bool(place.session.call(others.look_for, marker=arguments["marker"])[0])
        return outcome.succeeded

    @contextlib.contextmanager
    def _tidied(self, row: Row, name: str, outcome: Outcome, reach: str = "auto") -> Iterator[None]:
        """Leave no place behind in which the next attack would not run as if it were the first."""
        try:
            yield
        finally:
            if row.held is not Held.REFUSED or outcome.error is not None:
                self._drop(name, reach)
                if name == "plain":
                    neighbour = self._place("plain").session.call(network.listen)
                    self._scene = Scene(
                        self._scene.gateway, tuple(neighbour), self._scene.flood_bytes
                    )

    def _try(self, row: Row, where: str, control: str) -> Finding:
        """Try an attack in a hardened container."""
        place = self._place(where, row.reach)
        arguments = row.arguments(self._scene, place)
        if arguments is None:
            return Finding(row.group, row.name, where, control, "void", "cannot be tried here")
        begin_s = time.monotonic()
        with Pulse(place.neighbour) as pulse:
            outcome = place.session.attack(row.function, row.limit_s, **arguments)
        late = time.monotonic() - begin_s > row.limit_s + _SLACK_S
        with self._tidied(row, where, outcome, row.reach):
            problem = (
                "its owner waited for too long"
                if late
                else self._neighbour_lost(pulse, outcome)
                or self._problem(row, where, place, outcome)
            )
        state = "void" if outcome.fault else "broke" if problem else "held"
        detail = outcome.fault or problem or self._how(row, outcome)
        return Finding(row.group, row.name, where, control, state, detail, pulse.worst_s)

    def _neighbour_lost(self, pulse: Pulse, outcome: Outcome) -> str:
        if pulse.error is not None:
            return f"a neighbour had {type(pulse.error).__name__}: {pulse.error}"
        return ""

    def _how(self, row: Row, outcome: Outcome) -> str:
        if row.held is Held.ENDED:
            return f"its owner has {outcome.detail}"
        if row.held is Held.GONE:
            return "gone with the session"
        return outcome.detail

    def _problem(self, row: Row, where: str, place: Place, outcome: Outcome) -> str:
        """Return what an attack did that it must not; "" where nothing."""
        if row.held is Held.REFUSED:
            if outcome.error is not None:
                return f"the server did not survive: {outcome.error}"
            if outcome.succeeded:
                return outcome.detail
            return "" if place.session.answers() else "the server does not answer any more"
        if row.held is Held.BOUNDED:
            if outcome.error is not None or not place.session.answers():
                return "the server does not answer any more"
            if row.function.__name__ == "flood" and place.log_bytes() > (
                _LOG_SLACK * BOUNDS.log_bytes
            ):
                return "more of it is kept than there may be"
            return ""
        if row.held is Held.ENDED:
            if outcome.error is None:
                return "its owner has no error"
            return self._next_session(where, place)
        return self._left_behind(row, where, place)

    def _next_session(self, where: str, place: Place) -> str:
        """Return why nobody else can be served after a session was spoiled."""
        if where == "own":
            return ""  # its server was its own
        try:
            session = place.open()
        except errors.OpenEnvGymError as error:
            return f"nobody else is served: {error}"
        session.close()
        return ""

    def _left_behind(self, row: Row, where: str, place: Place) -> str:
        """End the session, and return what is left of it."""
        if where == "own":
            took_s = self._drop(where, row.reach)
            if place.exists():
                return "the container still runs"
            return "" if took_s < _GONE_S else f"it took {took_s:.0f} s to end"
        marker = (row.arguments(self._scene, place) or {}).get("marker")
        pid = place.session.run("import os\nresult = os.getpid()")
        place.session.close()
        look = others.look_for if marker else _lives
        argument: dict[str, Any] = {"marker": marker} if marker else {"pid": pid}
        end_s = time.monotonic() + _GONE_S
        while place.neighbour.call(look, **argument)[0]:
            if time.monotonic() > end_s:
                return "it still runs"
            time.sleep(0.1)
        place.session = place.open()
        return ""


def _lives(pid: int) -> tuple[bool, str]:
    """Tell whether a process runs. (Its source is sent to a container)."""
    import os

    return os.path.exists(f"/proc/{pid}"), ""


def _accept(listener: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            listener.accept()[0].close()
