"""Ports that are free."""

import contextlib
import random
import socket

#: A node of a cluster speaks to the others on its port plus this.
BUS = 10_000
# Below those that systems give to outgoing connections, which would otherwise take a port between our look and the
# server's start. So are the buses' ports.
FIRST, LAST = 10_000, 22_000


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that are free, and whose bus ports are."""
    found: list[int] = []
    # All stay bound until all are found, so that none is given twice.
    with contextlib.ExitStack() as held:
        for port in random.sample(range(FIRST, LAST), LAST - FIRST):
            if all(_bind(held, one) for one in (port, port + BUS)):
                found.append(port)
            if len(found) == count:
                return found
    raise OSError(f"there are no {count} free ports from {FIRST} to {LAST}")


def _bind(held: contextlib.ExitStack, port: int) -> bool:
    probe = held.enter_context(socket.socket())
    try:
        probe.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True
