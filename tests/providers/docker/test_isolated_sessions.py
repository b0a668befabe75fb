"""Sessions that share a container and must not touch each other. (The code runs inside them.)"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from openenv_gym import errors
from openenv_gym.client import Connection
from openenv_gym.providers import DockerProvider, Resources, ServerTarget
from openenv_gym.providers.docker import DockerServer
from openenv_gym.registration import lookup
from openenv_gym.registration.make_vector import make_vector_env
from tests.providers.docker.conftest import Attack
from tests.support.engines import containers_there
from tests.support.images import image
from tests.support.waiting import eventually


pytestmark = pytest.mark.container

_FACTS = """
    import os, stat
    place = os.environ["TMPDIR"]
    with open(f"/proc/{os.getpid()}/status") as file:
        status = dict(line.split(":", 1) for line in file)
    result = {
        "pid": os.getpid(), "supervisor": os.getppid(), "uid": os.getuid(), "place": place,
        "ids": sorted({*os.getresuid(), *os.getresgid(), *os.getgroups()}),
        "mode": stat.S_IMODE(os.stat(place).st_mode), "session": os.getsid(0),
        "rights": [int(status[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")],
        "no new": status["NoNewPrivs"].strip(),
    }
"""

_TRY = """
    import ctypes, errno, os, signal
    libc = ctypes.CDLL(None, use_errno=True)

    def attempt(function):
        try:
            return function()
        except OSError as error:
            return errno.errorcode[error.errno]

    def read(name):
        with open(name, "rb") as file:
            return file.read(1)

    def write(name):
        with open(name, "wb") as file:
            return file.write(b"1000")

    def trace(pid):
        return "done" if libc.ptrace(16, pid, 0, 0) == 0 else errno.errorcode[ctypes.get_errno()]
"""


@pytest.fixture
def house(attacker_image: str) -> Iterator[DockerServer]:
    """A container for three sessions."""
    provider = DockerProvider(image=attacker_image, build="never")
    server = provider.start(_target(3))
    assert isinstance(server, DockerServer)
    yield server
    for session in Attack.opened:
        session.connection.close()
    Attack.opened.clear()
    server.stop()


_SOCKETS = """
    import errno, socket
    def made(family, kind):
        try:
            socket.socket(family, kind).close()
        except OSError as error:
            return errno.errorcode[error.errno]
        return "made"
    kinds = (socket.SOCK_STREAM, socket.SOCK_DGRAM)
    result = {made(family, kind) for family in (socket.AF_INET, socket.AF_INET6) for kind in kinds}
"""


def _target(count: int) -> ServerTarget:
    return ServerTarget("attacker:app", untrusted=True, num_envs=count, isolate_sessions=True)


def run(session: Attack, code: str, **names: Any) -> Any:
    head = "".join(f"{name} = {value!r}\n" for name, value in names.items())
    return session.run(head + textwrap.dedent(_TRY) + textwrap.dedent(code))


def facts(session: Attack) -> Any:
    return session.run(textwrap.dedent(_FACTS))


def test_each_has_a_user_a_directory_and_no_rights(house: DockerServer) -> None:
    found = [facts(Attack(house)) for _ in range(3)]
    for name in ("pid", "uid", "place"):
        assert len({each[name] for each in found}) == 3
    for each in found:
        assert each["ids"] == [each["uid"]]
        assert each["uid"] >= 20_000
        assert each["mode"] == 0o700
        assert each["session"] == each["pid"]
        assert each["rights"] == [0, 0, 0, 0]
        assert each["no new"] == "1"


def test_nothing_of_others_can_be_touched(house: DockerServer) -> None:
    victim, attacker = Attack(house), Attack(house)
    run(victim, "write(os.path.join(os.environ['TMPDIR'], 'secret'))")
    theirs = facts(victim)
    code = """
        result = {}
        for pid in (victim, supervisor):
            for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, 0):
                result["kill", pid, int(number)] = attempt(lambda: os.kill(pid, number))
            result["killpg", pid] = attempt(lambda: os.killpg(pid, signal.SIGKILL))
            for name in ("environ", "mem", "maps", "fd", "root", "cwd", "stack", "syscall"):
                path = f"/proc/{pid}/{name}"
                known = os.listdir if name == "fd" else os.readlink if name in ("root", "cwd") else read
                result[name, pid] = attempt(lambda: known(path))
            for name in ("oom_score_adj", "mem", "clear_refs", "comm"):
                result["write", name, pid] = attempt(lambda: write(f"/proc/{pid}/{name}"))
            result["trace", pid] = trace(pid)
            result["limits", pid] = attempt(lambda: __import__("resource").prlimit(pid, 7, (9, 9)))
            result["nice", pid] = attempt(lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
        for work in (os.listdir, os.rmdir, lambda path: os.chmod(path, 0o777)):
            result["place", repr(work)] = attempt(lambda: work(place))
        result["secret"] = attempt(lambda: read(place + "/secret"))
        for user in (0, uid):
            result["become", user] = attempt(lambda: os.setresuid(user, user, user))
            result["group", user] = attempt(lambda: os.setgid(user))
    """
    supervisor = theirs["supervisor"]
    tried = run(
        attacker,
        code,
        victim=theirs["pid"],
        supervisor=supervisor,
        place=theirs["place"],
        uid=theirs["uid"],
    )
    refused = ("EPERM", "EACCES", "EROFS")
    succeeded = {what: how for what, how in tried.items() if how not in refused}
    assert succeeded == {}
    # The same attempts succeed where they may: on the attacker's own.
    assert run(attacker, "result = attempt(lambda: os.kill(os.getpid(), 0))") is None
    assert run(victim, "result = read(os.environ['TMPDIR'] + '/secret')") == b"1"
    assert Attack(house).run("result = 'the supervisor lives'") == "the supervisor lives"


def test_killing_all_that_can_be_killed_ends_oneself_alone(house: DockerServer) -> None:
    victim, attacker = Attack(house), Attack(house)
    with pytest.raises(errors.SessionLostError):
        attacker.run("import os, signal\nos.kill(-1, signal.SIGKILL)\nos.kill(os.getpid(), 9)")
    assert victim.run("result = 'alive'") == "alive"
    assert Attack(house, wait_s=30).run("result = 'another one'") == "another one"


def test_a_fork_bomb_does_not_keep_others_from_working(house: DockerServer) -> None:
    victim, attacker = Attack(house), Attack(house)
    code = """
        import subprocess, sys
        count = 0
        while True:
            try:
                child = os.fork()
            except OSError as error:
                result = errno.errorcode[error.errno], count
                break
            if child == 0:
                signal.pause()
            count += 1
    """
    name, count = run(attacker, code)
    assert name == "EAGAIN"
    assert count > 16  # it had its share
    begun = "import subprocess\nresult = subprocess.run(['true']).returncode"
    assert victim.run(begun) == 0
    assert Attack(house).run(begun) == 0  # the supervisor starts a session all the same


def test_what_one_fills_is_its_own(attacker_image: str) -> None:
    resources = Resources(tmp_bytes=4 << 20)
    provider = DockerProvider(image=attacker_image, build="never", resources=resources)
    server = provider.start(_target(2))
    victim, attacker = Attack(server), Attack(server)
    code = """
        with open(os.environ["TMPDIR"] + "/big", "wb", buffering=0) as file:
            def fill():
                while True:
                    file.write(bytes(1 << 16))
            result = attempt(fill), file.tell()
    """
    name, size = run(attacker, code)
    assert name == "ENOSPC"
    assert size <= 4 << 20
    assert run(victim, "result = write(os.environ['TMPDIR'] + '/mine')") == 4
    writable = attacker.run(
        "import os\nresult = [path for path, _, _ in os.walk('/') if os.access(path, os.W_OK) "
        "and not path.startswith('/proc')]"
    )
    assert set(writable) <= {facts(attacker)["place"], "/dev/mqueue"}
    # Queues outlive their makers; nobody gets any.
    code = """
        import ctypes
        libc = ctypes.CDLL("librt.so.1", use_errno=True)
        result = libc.mq_open(b"/queue", os.O_CREAT | os.O_RDWR, 0o666, None)
    """
    assert run(attacker, code) == -1
    for session in Attack.opened:
        session.connection.close()
    Attack.opened.clear()
    server.stop()


_LEAVE = """
    place = os.environ["TMPDIR"]
    for daemon in range(3):  # each gets away from its parent, its group and its session
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                while True:
                    signal.pause()
            os._exit(0)
    here = place
    for depth in range(1500):
        os.mkdir(here + "/d")
        os.chdir(here + "/d" if depth == 0 else "d")
        here = "."
    os.chdir("/")
    os.chmod(place + "/d", 0)
    os.symlink("/opt", place + "/link")
    number = libc.shmget(1234, 4096, 0o1666)
    os.chmod(place, 0)
    result = number
"""

_LEFT = """
    result = {
        "users": sorted({os.stat(f"/proc/{pid}").st_uid for pid in os.listdir("/proc") if pid.isdigit()}),
        "files": os.listdir(os.environ["TMPDIR"]),
        "memory": len(open("/proc/sysvipc/shm").read().splitlines()) - 1,
    }
"""


def test_nothing_of_a_session_is_left(house: DockerServer) -> None:
    """Processes that ran away, deep directories, shared memory: gone, and the place is usable."""
    before = Attack(house)
    assert run(before, _LEAVE) >= 0
    where = facts(before)
    before.connection.close()
    place, others = None, []
    while place != where["place"]:  # until somebody gets the same one
        session = Attack(house, wait_s=60)
        place = facts(session)["place"]
        others.append(session)
        if len(others) == 3:
            others.pop(0).connection.close()
    left = run(session, _LEFT)
    assert left["files"] == []
    assert left["memory"] == 0
    assert run(session, "result = write(os.environ['TMPDIR'] + '/new')") == 4
    allowed = {0, *(facts(each)["uid"] for each in others)}
    assert eventually(
        lambda: len(set(run(session, _LEFT)["users"]) - allowed) <= 1, 30
    )  # the spare


def test_others_survive_the_end_of_one(house: DockerServer) -> None:
    sessions = [Attack(house) for _ in range(3)]
    with pytest.raises(errors.CapacityError, match="3 of at most 3"):
        Connection(house.address, {}, timeout_s=60, why_lost=house.why_lost)
    with pytest.raises(errors.SessionLostError):
        sessions[0].run("import os\nos._exit(3)")
    for session in sessions[1:]:
        session.connection._drop()
        assert session.run("result = 'alive'") == "alive"
    assert eventually(lambda: "ended with 3" in house.log_tail())


def test_a_container_that_may_not_change_users_serves_nothing(
    docker: Any, attacker_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from openenv_gym.providers.docker import container

    real = container.container_options

    def without(*args: Any, **kwargs: Any) -> dict[str, Any]:
        return {**real(*args, **kwargs), "cap_add": []}

    monkeypatch.setattr(container, "container_options", without)
    server = DockerProvider(image=attacker_image, build="never").start(_target(2))
    with pytest.raises(errors.ServerDiedError) as caught:
        Connection(server.address, {}, connect_timeout_s=60, why_lost=server.why_lost)
    assert "IsolationError: Sessions of an environment that runs untrusted" in caught.value.log
    server.stop()


def test_too_few_processes_for_the_sessions(attacker_image: str) -> None:
    resources = Resources(pids=100)
    provider = DockerProvider(image=attacker_image, build="never", resources=resources)
    with pytest.raises(errors.InvalidOptionError, match="pids is 100, expected at least") as caught:
        provider.start(_target(4))
    assert caught.value.field == "pids"


@pytest.mark.parametrize("reach", ["exec"])
def test_where_the_daemon_is_elsewhere(attacker_image: str, reach: str) -> None:
    provider = DockerProvider(image=attacker_image, build="never", reach=reach)
    server = provider.start(_target(2))
    assert isinstance(server, DockerServer)
    sessions = [Attack(server) for _ in range(2)]
    assert len({facts(each)["uid"] for each in sessions}) == 2
    for session in sessions:
        session.connection.close()
    Attack.opened.clear()
    server.stop()


# -- vector environments --------------------------------------------------------------------------


def untrusted_echo() -> Any:
    image("echo_env")
    return dataclasses.replace(lookup("openenv/Echo-v0"), untrusted=True)


def containers(env: Any) -> set[str]:
    return {member._release.__self__._house.running.container_id for member in env._fleet.members}


def test_fewer_servers_than_sub_environments(docker: Any) -> None:
    env = make_vector_env(untrusted_echo(), num_envs=4, num_servers=2, provider="docker")
    assert len(env._fleet.members) == 4
    names = containers(env)
    assert len(names) == 2
    observations, _ = env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(3):
        env.step(env.action_space.sample())
    assert len(observations) > 0
    # The server of a pair stays until the second of them is gone.
    env._fleet.members[0].discard()
    assert all(docker.containers.get(name).status == "running" for name in names)
    env._fleet.members[1].discard()
    assert eventually(lambda: len(_existing(docker, names)) == 1)
    env.close()
    assert eventually(lambda: not _existing(docker, names))


def test_a_lost_session_is_replaced_beside_the_others(docker: Any) -> None:
    env = make_vector_env(
        untrusted_echo(), num_envs=3, num_servers=1, provider="docker", on_failure="restart"
    )
    env.reset(seed=0)
    env.action_space.seed(0)
    actions = env.action_space.sample()
    env.step(actions)
    (name,) = containers(env)
    lines = docker.containers.get(name).top(ps_args="-eo pid,uid,args")["Processes"]
    _kill_session(docker, name, lines, env._fleet.members[1].connection.session_name)
    _, _, _, truncations, infos = env.step(actions)
    assert truncations.tolist() == [False, True, False]
    assert np.flatnonzero(infos["server_restarted"]).tolist() == [1]
    assert containers(env) == {name}
    env.close()


def test_all_sessions_of_a_lost_container_move_to_one(docker: Any) -> None:
    env = make_vector_env(
        untrusted_echo(), num_envs=3, num_servers=1, provider="docker", on_failure="restart"
    )
    env.reset(seed=0)
    env.action_space.seed(0)
    (name,) = containers(env)
    docker.containers.get(name).kill()
    _, _, _, truncations, _ = env.step(env.action_space.sample())
    assert truncations.all()
    assert len(containers(env) - {name}) == 1
    env.close()


def _kill_session(docker: Any, name: str, lines: list[list[str]], session: str) -> None:
    number = int(session.partition("-")[0])
    (user,) = {line[1] for line in lines if f'"number": {number},' in line[2]}
    code = "import os\nos.kill(-1, 9)"
    done = docker.containers.get(name).exec_run(["python", "-c", code], user=f"{user}:{user}")
    # It spares itself; but the supervisor, which ends what is left of a session, may come first.
    assert done.exit_code in (0, 128 + 9)


def _existing(docker: Any, names: set[str]) -> set[str]:
    return {name for name in names if containers_there(docker, name=name)}


def test_sessions_do_not_meet_on_the_loopback_interface(house: DockerServer) -> None:
    session = Attack(house)
    assert run(session, _SOCKETS) == {"EAFNOSUPPORT"}
    # Also not those of a program that it starts.
    code = "import socket; socket.create_server(('127.0.0.1', 0))"
    started = f"""
        import subprocess, sys
        result = subprocess.run(
            [sys.executable, "-c", {code!r}], capture_output=True, text=True
        ).stderr
    """
    assert "Address family not supported" in run(session, started)


def test_where_a_network_was_asked_for_there_are_sockets_for_it(attacker_image: str) -> None:
    provider = DockerProvider(image=attacker_image, build="never", network=["192.0.2.1:443"])
    server = provider.start(_target(2))
    assert isinstance(server, DockerServer)
    try:
        assert run(Attack(server), _SOCKETS) == {"made"}
    finally:
        for session in Attack.opened:
            session.connection.close()
        Attack.opened.clear()
        server.stop()
