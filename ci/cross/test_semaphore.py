"""Tests that a semaphore keeps its limit across languages, also if processes die."""

import random
import time

from inside import most_holders_at_once, steps

import steadlock
from programs import Contender, Server, start_round, together, wait_until

LIMIT, LEASE_MS, SECONDS = 5, 3000, 12
# The languages of five processes with ten workers each.
PROCESSES = ["python-threads", "node", "jvm", "python-asyncio", "node"]


def contender(server: Server, language: str) -> Contender:
    options = {"kind": "semaphore", "limit": LIMIT, "workers": 10, "hold_ms": 20, "lease_ms": LEASE_MS, "log": 1}
    return Contender(language, "turns", server, "permits", **options)


def test_50_contenders_that_are_killed_at_random_never_exceed_the_limit(server: Server) -> None:
    kills = 0
    with together(contender(server, language) for language in PROCESSES) as running:
        start_round(running)
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            time.sleep(random.uniform(0.2, 1.0))
            victim = random.randrange(len(running))
            assert all(one.process.poll() is None for one in running), "a contender ended by itself"
            running[victim].kill()
            kills += 1
            running[victim] = contender(server, running[victim].language)
            running[victim].expect("ready")
            running[victim].start_round()
        for one in running:
            one.kill()
    killed = time.monotonic()
    log = steps(server, "permits")
    print(f"{kills} processes killed, {len(log) // 2} holds by {len({step.process for step in log})} processes")
    assert most_holders_at_once(log) == LIMIT
    assert len({step.process for step in log}) > len(PROCESSES), "no later process was granted a permit"
    with steadlock.connect(server.url) as client:
        semaphore = client.semaphore("permits", LIMIT)
        wait_until("all permits are free", lambda: semaphore.available() == LIMIT, within=20)
        print(f"all permits free after {time.monotonic() - killed:.2f} s")
