"""TLS on a server's TCP port: both clients, HTTP, workers, and peers that do it wrong."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import http.client
import os
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from openenv_gym import errors
from openenv_gym.client import Connection, parse_base_url
from openenv_gym.client.async_connection import AsyncConnection
from openenv_gym.openenv import GenericEnvClient
from openenv_gym.protocol.limits import Limits
from openenv_gym.server import Server, create_app, load_app
from openenv_gym.server.tls import server_context
from tests.support.certificates import Certificates, make_certificates
from tests.support.waiting import eventually
from tests.support.worlds import CountingEnv


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("ca"), "127.0.0.1", "localhost")


@contextlib.contextmanager
def serving(certificates: Certificates, app: Any = None, **options: Any) -> Iterator[Server]:
    context = server_context(certificates.cert, certificates.key)
    server = Server(app or create_app(CountingEnv), tls=context, **options)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def url_of(server: Server, scheme: str = "https") -> str:
    host, port = server.listen_tcp("127.0.0.1", 0)
    return f"{scheme}://{host}:{port}"


def connect(url: str, certificates: Certificates, **options: Any) -> Connection:
    return Connection(parse_base_url(url, ca_file=certificates.ca), options, timeout_s=20)


@pytest.mark.parametrize("scheme", ["https", "wss"])
def test_a_blocking_client(certificates: Certificates, scheme: str) -> None:
    with serving(certificates) as server:
        connection = connect(url_of(server, scheme), certificates, payload_bytes=3_000_000)
        observation = connection.call("reset", [None, None]).value[0]
        for action in range(5):
            assert connection.call("step", [action]).value[0] is not None
        assert np.asarray(observation["payload"]).nbytes == 3_000_000
        connection.close()
        assert eventually(lambda: len(server.sessions) == 0)


def test_the_same_trajectory_as_without(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play(env: gymnasium.Env[Any, Any]) -> list[Any]:
        seen = [env.reset(seed=5)[0].tolist()]
        for step in range(30):
            seen.append(env.step(step % 2)[0].tolist())
        env.close()
        return seen

    with serving(certificates, load_app("gymnasium")) as server:
        url = url_of(server)
        far = gymnasium.make("openenv/CartPole-v1", base_url=url, ca_file=str(certificates.ca))
        assert play(far) == play(gymnasium.make("CartPole-v1"))
        monkeypatch.setenv("OPENENV_CA_FILE", str(certificates.ca))
        envs = gymnasium.make_vec("openenv/CartPole-v1", num_envs=3, num_servers=2, base_url=url)
        assert envs.reset(seed=1)[0].shape == (3, 4)
        envs.close()


def test_an_asynchronous_client_and_openenvs(certificates: Certificates) -> None:
    async def use(url: str) -> None:
        address = parse_base_url(url, ca_file=certificates.ca)
        connection = await AsyncConnection.open(address)
        await connection.request("reset", [None, None])
        await connection.close()

    with serving(certificates) as server:
        url = url_of(server)
        asyncio.run(use(url))
        for protocol in ("binary", "json"):
            client = GenericEnvClient(url, ca_file=certificates.ca, protocol=protocol)  # type: ignore[arg-type]
            with client.sync() as blocking:
                assert blocking.reset().observation is not None


def test_http(certificates: Certificates) -> None:
    trusting = ssl.create_default_context(cafile=str(certificates.ca))
    with serving(certificates) as server:
        port = int(url_of(server).rpartition(":")[2])
        connection = http.client.HTTPSConnection("localhost", port, context=trusting, timeout=20)
        connection.request("GET", "/health")
        assert connection.getresponse().read() == b'{"status": "healthy"}'
        connection.close()


def test_a_connection_that_breaks_is_resumed(certificates: Certificates) -> None:
    with serving(certificates) as server:
        connection = connect(url_of(server), certificates)
        connection.call("reset", [None, None])
        for _ in range(5):
            connection._transport.shut_down()  # type: ignore[union-attr]
            connection.call("step", [1])
        assert connection.call("state", []).value is not None
        connection.close()


# -- certificates ---------------------------------------------------------------------------------


def test_a_certificate_that_nobody_trusts(certificates: Certificates) -> None:
    with serving(certificates) as server:
        url = url_of(server)
        with pytest.raises(errors.CertificateError, match="not trusted.*ca_file=.*OPENENV_CA_FILE"):
            Connection(parse_base_url(url), {}, timeout_s=20)
        with (
            pytest.raises(errors.CertificateError, match="not trusted"),
            GenericEnvClient(url).sync() as client,
        ):
            client.reset()
        with pytest.raises(errors.CertificateError, match="not trusted"):
            gymnasium.make("openenv/Remote-v0", base_url=url, env_id="CartPole-v1")


def test_a_certificate_of_another_name(tmp_path: Path) -> None:
    other = make_certificates(tmp_path, "elsewhere.example")
    with serving(other) as server, pytest.raises(errors.CertificateError, match="IP address"):
        connect(url_of(server), other)


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_a_ca_file_without_certificates(
    certificates: Certificates, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "ca"
    if content is not None:
        path.write_bytes(content)
    with serving(certificates) as server:
        address = parse_base_url(url_of(server), ca_file=path)
        with pytest.raises(errors.InvalidOptionError, match="holds no certificates") as caught:
            Connection(address, {}, timeout_s=20)
        assert caught.value.field == "ca_file"


def test_a_ca_file_where_it_cannot_count() -> None:
    with pytest.raises(errors.InvalidOptionError, match="ca_file=") as caught:
        gymnasium.make("openenv/CartPole-v1", provider="thread", ca_file="/ca.pem")
    assert caught.value.field == "ca_file"


@pytest.mark.parametrize("wrong", ["missing", "swapped", "other key", "encrypted"])
def test_files_that_are_no_certificate_and_its_key(
    certificates: Certificates, tmp_path: Path, wrong: str
) -> None:
    cert, key = certificates.cert, certificates.key
    if wrong == "missing":
        key = tmp_path / "nowhere"
    elif wrong == "swapped":
        cert, key = key, cert
    elif wrong == "other key":
        key = make_certificates(tmp_path, "localhost").key
    else:
        key = tmp_path / "key"
        key.write_text(
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"
        )
    with pytest.raises(errors.InvalidOptionError, match=r"Cannot read|are no certificate"):
        server_context(cert, key)


# -- the wrong protocol, and peers that mean harm --------------------------------------------------


def test_without_tls_to_a_port_with_it(certificates: Certificates) -> None:
    with (
        serving(certificates) as server,
        pytest.raises(errors.NotAnOpenEnvServerError, match="TLS is spoken here: use https://"),
    ):
        Connection(parse_base_url(url_of(server, "http")), {}, timeout_s=20)


def test_with_tls_to_a_port_without_it(certificates: Certificates) -> None:
    server = Server(create_app(CountingEnv))
    server.start()
    try:
        with pytest.raises(errors.ServerUnreachableError, match="does not agree on TLS.*http://"):
            connect(url_of(server), certificates)
    finally:
        server.stop()


def test_a_handshake_that_takes_too_long(certificates: Certificates) -> None:
    with serving(certificates, limits=Limits(handshake_timeout_s=0.3)) as server:
        port = int(url_of(server).rpartition(":")[2])
        for said in (b"", b"\x16\x03\x01\x02\x00\x01"):
            with socket.create_connection(("127.0.0.1", port), 10) as sock:
                sock.sendall(said)
                with contextlib.suppress(ConnectionResetError):
                    assert sock.recv(100) == b""
        assert server._relays is not None and eventually(lambda: not server._relays._relays)


@pytest.mark.parametrize("how", ["plain", "TLS"])
def test_who_is_accepted_while_the_server_stops_is_hung_up_on(
    certificates: Certificates, how: str
) -> None:
    with serving(certificates) as server:
        relays = server._relays
    assert relays is not None
    ours, theirs = socket.socketpair()
    with theirs:
        if how == "plain":
            server.adopt(ours, "late")
        else:
            relays.accept(ours, "late")
        theirs.settimeout(10)
        while theirs.recv(100):
            pass
    assert ours.fileno() == -1


def test_whatever_a_peer_does_nothing_is_left(certificates: Certificates) -> None:
    trusting = ssl.create_default_context(cafile=str(certificates.ca))
    with serving(certificates, limits=Limits(handshake_timeout_s=60)) as server:
        port = int(url_of(server).rpartition(":")[2])
        relays = server._relays
        assert relays is not None
        gc.collect()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port), 10) as plain:
                plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
                plain.recv(100)
            with (
                socket.create_connection(("127.0.0.1", port), 10) as sock,
                trusting.wrap_socket(sock, server_hostname="localhost") as tls,
            ):
                tls.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert tls.recv(100).startswith(b"HTTP/1.1 200")
            with socket.create_connection(("127.0.0.1", port), 10) as sock:
                tls = trusting.wrap_socket(sock, server_hostname="localhost")
                tls.sendall(b"GET /health HT")
                tls.close()  # without a word
        silent = socket.create_connection(("127.0.0.1", port), 10)
        tls = trusting.wrap_socket(silent, server_hostname="localhost")
        tls.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")  # and reads nothing

        def none_left() -> bool:
            server._keep_house(time.monotonic() + 61)  # when the limits are over
            return not relays._relays

        assert eventually(none_left)
        tls.close()
        assert eventually(lambda: len(os.listdir("/proc/self/fd")) <= before + 1)


def test_a_client_that_reads_late_gets_everything(certificates: Certificates) -> None:
    trusting = ssl.create_default_context(cafile=str(certificates.ca))
    with serving(certificates) as server:
        connection = connect(url_of(server), certificates, payload_bytes=9_000_000)
        request = ["reset", [None, None]]
        assert connection.call(*request).value[0]["payload"].nbytes == 9_000_000  # type: ignore[arg-type]
        connection.close()
        port = int(url_of(server).rpartition(":")[2])
        with (
            socket.create_connection(("127.0.0.1", port), 20) as sock,
            trusting.wrap_socket(sock, server_hostname="localhost") as tls,
        ):
            tls.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
            time.sleep(0.3)
            received = b""
            while part := tls.recv(100):
                received += part
            assert received.endswith(b"}")


def test_what_the_server_says_at_its_end_arrives(certificates: Certificates) -> None:
    with serving(certificates) as server:
        connection = connect(url_of(server), certificates)
        connection.call("reset", [None, None])
        transport = connection._transport
        assert transport is not None
        server.drain(0.0)
    with pytest.raises(ConnectionResetError, match="server closed the connection .1000"):
        for _ in range(3):
            transport.receive(60.0)
    connection.forget()


# -- by command -----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [[], ["--workers", "2"]])
def test_a_server_started_by_command(
    command: Any, certificates: Certificates, how: list[str]
) -> None:
    files = ["--tls-cert", str(certificates.cert), "--tls-key", str(certificates.key)]
    url = command(*files, *how).url()
    assert url.startswith("https://")
    connections = [connect(url, certificates, env_id="CartPole-v1") for _ in range(3)]
    for connection in connections:
        connection.call("reset", [1, None])
        assert connection.call("step", [1]).value[1] == 1.0
        connection.close()


def test_a_certificate_without_its_key(command: Any, certificates: Certificates) -> None:
    refused = command("--tls-cert", str(certificates.cert))
    assert refused.process.wait(60) == 1
    assert "--tls-key is missing" in refused.log()
