"""Attacks that reach for a network."""

from __future__ import annotations


__all__ = ["ask_dns", "connect", "listen", "raw_sockets", "send", "vsock"]


def connect(host: str, port: int) -> tuple[bool, str]:
    """Connect to somebody who listens."""
    import socket

    with socket.create_connection((host, port), timeout=3) as sock:
        return True, f"connected to {sock.getpeername()[0]}"


def send(host: str) -> tuple[bool, str]:
    """Have a packet leave for somewhere; whether anybody answers does not matter."""
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"openenv-attack", (host, 80))
    return True, f"sent to {host}"


def ask_dns() -> tuple[bool, str]:
    """Have a question leave for a name server: names carry data out where nothing else does."""
    import socket

    question = b"\0\1\1\0\0\1\0\0\0\0\0\0\6secret\7invalid\0\0\1\0\1"
    with open("/etc/resolv.conf") as file:
        servers = [line.split()[1] for line in file if line.startswith("nameserver")]
    for server in servers or ["127.0.0.1"]:
        family = socket.AF_INET6 if ":" in server else socket.AF_INET
        if server.startswith(("127.", "::1")):
            continue  # this container's own
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.sendto(question, (server, 53))
            return True, f"asked {server}"
    return False, "no name server"


def vsock() -> tuple[bool, str]:
    """Make a socket to the host of a virtual machine, which no network namespace holds back."""
    import socket

    socket.socket(40, socket.SOCK_STREAM).close()  # AF_VSOCK
    return True, "made a socket"


def raw_sockets() -> tuple[bool, str]:
    """Make a socket that sends whatever it is given, in anybody's name."""
    import errno
    import socket

    refusals = set()
    for family, protocol in ((socket.AF_INET, 1), (17, 0x300)):  # ICMP; AF_PACKET, all of it
        try:
            socket.socket(family, socket.SOCK_RAW, protocol).close()
            return True, "made a raw socket"
        except OSError as error:
            refusals.add(errno.errorcode.get(error.errno or 0, "?"))
    return False, ", ".join(sorted(refusals))


def listen() -> tuple[str, int]:
    """Listen, for as long as the session lasts, and tell where. (No attack: somebody to reach)."""
    import socket

    sock = socket.create_server(("0.0.0.0", 0))
    globals()["openenv_listener"] = sock
    return socket.gethostbyname(socket.gethostname()), sock.getsockname()[1]
