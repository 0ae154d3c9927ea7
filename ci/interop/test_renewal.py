"""Tests that our auto-renewed lease excludes other libraries after its first length, until it is released."""

from collections.abc import Callable

import pytest

import steadlock
from pairs import LOCKS, MUTEXES
from peers import Library, Peer
from server import Server

LEASE = 1.2
RENEWALS = 4


@pytest.mark.parametrize("library", MUTEXES + LOCKS, ids=str)
def test_our_watchdog_excludes_the_other_library(
    server: Server, start: Callable[[Library], Peer], library: Library
) -> None:
    theirs, name = start(library), server.new_name()
    key = library.prefix + name
    with steadlock.connect(server.url, lease=LEASE) as client:
        lease = (client.lock(key) if library in LOCKS else client.mutex(key)).try_acquire()
        assert lease
        server.begin_wait(lambda: theirs.send("lock", name, 30_000))
        ttl, renewals = server.store.pttl(key), 0

        def renewed() -> bool:
            nonlocal ttl, renewals
            before, ttl = ttl, server.store.pttl(key)
            renewals += ttl > before
            return renewals == RENEWALS

        server.until(renewed, "nothing was renewed")
        assert theirs.has_not_answered()
        assert lease.is_valid()
        assert lease.release() == "released"
    assert theirs.answer(within=10) == "held"
    assert server.store.pttl(key) > 10_000
    assert theirs.call("unlock", name) == "released"
