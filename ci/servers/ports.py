"""Finds free ports."""

import contextlib
import random
import socket

#: A cluster node uses its port plus this number for the connections to other nodes (the bus).
BUS = 10_000
# These ports and their bus ports are below the range that systems use for outgoing connections. Otherwise such a
# connection could use a port between our check and the server's start.
FIRST, LAST = 10_000, 22_000


def free_ports(count: int) -> list[int]:
    """Returns ports of 127.0.0.1 that are free and whose bus ports are free too."""
    found: list[int] = []
    # Every port stays bound until all are found, so no port is returned twice.
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
