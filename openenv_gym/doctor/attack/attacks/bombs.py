"""Attacks that use up what others need."""

from __future__ import annotations


__all__ = ["burn", "eat_memory", "flood", "fork_bomb", "stall", "thread_bomb"]


def fork_bomb(bound: int) -> tuple[bool, str]:
    """Make more processes than there may be."""
    import os
    import signal

    children: list[int] = []
    refusal = ""
    try:
        while len(children) <= bound:
            child = os.fork()
            if child == 0:
                while True:
                    signal.pause()
            children.append(child)
    except OSError as error:
        refusal = f"{error.strerror} after "
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return not refusal, f"{refusal}{len(children)} processes"


def thread_bomb(bound: int) -> tuple[bool, str]:
    """Make more threads than there may be."""
    import threading

    end, refusal = threading.Event(), ""
    threads: list[threading.Thread] = []
    try:
        while len(threads) <= bound:
            thread = threading.Thread(target=end.wait, daemon=True)
            thread.start()
            threads.append(thread)
    except RuntimeError as error:
        refusal = f"{error} after "
    end.set()
    for thread in threads:
        thread.join()
    return not refusal, f"{refusal}{len(threads)} threads"


def eat_memory(bound_bytes: int) -> tuple[bool, str]:
    """Use more memory than there may be, in a process of its own."""
    import os
    import signal

    child = os.fork()
    if child == 0:
        kept = []
        try:
            for _ in range((bound_bytes >> 20) + 1):
                kept.append(b"x" * (1 << 20))
        except MemoryError:
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return False, signal.Signals(os.WTERMSIG(status)).name
    return status == 0, f"{bound_bytes >> 20} MiB" if status == 0 else "MemoryError"


def burn(for_s: float) -> tuple[bool, str]:
    """Use all processors: it succeeds where there is no quota, or more than it was used."""
    import os
    import time

    begin_s, children = time.monotonic(), []
    for _ in range(os.cpu_count() or 1):
        child = os.fork()
        if child == 0:
            while time.monotonic() < begin_s + for_s:
                pass
            os._exit(0)
        children.append(child)
    used_s = 0.0
    for child in children:
        usage = os.wait4(child, 0)[2]
        used_s += usage.ru_utime + usage.ru_stime
    used = used_s / (time.monotonic() - begin_s)
    quota = -1.0
    for path in ("cpu.max", "cpu/cpu.cfs_quota_us", "cpu,cpuacct/cpu.cfs_quota_us"):
        if os.path.exists(f"/sys/fs/cgroup/{path}"):
            with open(f"/sys/fs/cgroup/{path}") as file:
                words = file.read().split()
            if len(words) == 1:
                with open(f"/sys/fs/cgroup/{path}".replace("quota", "period")) as file:
                    words += file.read().split()
            quota = -1.0 if words[0] in ("max", "-1") else int(words[0]) / int(words[1])
            break
    text = f"{used:.2f} processors of " + (f"{quota:g}" if quota > 0 else "all there are")
    # The quota counts in periods of 0.1 s, and the last one may be spent in full.
    return quota < 0 or used > quota * 1.3, text


def stall() -> tuple[bool, str]:
    """Hold the interpreter, and never return."""
    value = 3
    while True:
        value = value**3 % 2**2_000_000


def flood(size_bytes: int) -> tuple[bool, str]:
    """Write to the standard output; how much of it is kept, its owner sees."""
    import os

    line, written = b"x" * 65535 + b"\n", 0
    while written < size_bytes:
        written += os.write(1, line)
    return True, f"{written >> 20} MiB written"
