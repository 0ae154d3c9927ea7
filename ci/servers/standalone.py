"""Independent servers: one alone, or five for RedLock."""

from ports import free_ports
from processes import Servers
from rig import Rig, url


def standalone(servers: Servers) -> Rig:
    return _independent(servers, 1)


def redlock(servers: Servers) -> Rig:
    return _independent(servers, 5)


def _independent(servers: Servers, count: int) -> Rig:
    primaries = [servers.start(port) for port in free_ports(count)]
    servers.wait_until_all_answer()
    return Rig([url(servers, [primary]) for primary in primaries], primaries)
