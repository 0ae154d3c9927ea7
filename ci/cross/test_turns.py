"""Tests how processes share a lock. These tests measure seconds, so they run without other load."""

import time

import pytest

import steadlock
from programs import LANGUAGES, Contender, Server, contend, turns

pytestmark = pytest.mark.timing

RING = list(zip(LANGUAGES, LANGUAGES[1:] + LANGUAGES[:1], strict=True))
LEASE_MS = 1000
#: The least share of grants for each of two processes that take turns.
LEAST_SHARE = 0.35
#: Lower shares. WebAssembly is notified of a release by its host's Redis client and event loop. This takes longer than
#: the shortest pauses in which another process yields, so WebAssembly misses some of its turns.
LEAST_SHARES = {"web": 0.2}


@pytest.mark.parametrize(("one", "other"), [(language, language) for language in LANGUAGES] + RING)
def test_two_processes_alternate(server: Server, one: str, other: str) -> None:
    name = f"turns-{one}-{other}"
    results = contend(Contender(language, "turns", server, name, workers=8, seconds=5) for language in (one, other))
    first, second = (sum(turns(line).grants) for line in results)
    for language, grants in ((one, first), (other, second)):
        share = grants / (first + second)
        assert share >= LEAST_SHARES.get(language, LEAST_SHARE), f"{one} had {first} grants and {other} {second}"


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_next_waiter_is_granted_within_the_lease_of_a_killed_holder(server: Server, language: str) -> None:
    name = f"killed-{language}"
    holder = Contender(language, "hold", server, name, lease_ms=LEASE_MS)
    try:
        holder.expect("held")
        with steadlock.connect(server.url) as client:
            assert client.lock(name).try_acquire() is None
            holder.kill()
            killed = time.monotonic()
            lease = client.lock(name).try_acquire(wait=10)
            waited = time.monotonic() - killed
            assert lease is not None
            lease.release()
        assert waited < LEASE_MS / 1000 + 0.6
    finally:
        holder.kill()
