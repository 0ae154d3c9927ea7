"""Tests that no waiter depends on notifications: if all of them are lost, a poll acquires the lock."""

import pytest
from inside import longest_gap, most_holders_at_once, steps
from muting_proxy import end_of_reply, is_message, proxy_without_messages

import steadlock
from programs import Contender, Server, finish, start_round, together, turns, wait_until

PROCESSES = ["python-threads", "node", "jvm"]
WORKERS, ROUNDS, LIMIT = 2, 2, 2
# Seconds. A poll comes every 500 to 750 ms. Without polls, a waiter would wait for the end of a lease of 30 s.
STALL = 10


@pytest.mark.parametrize("kind", ["lock", "mutex", "fair", "read", "write", "semaphore"])
def test_without_messages_a_waiter_is_granted_by_a_poll(server: Server, kind: str) -> None:
    name = f"muted-{kind}"
    with proxy_without_messages(server.port) as proxy, steadlock.connect(server.url) as holder:
        muted = Server(proxy.url, server.store)
        options = {"kind": kind, "workers": WORKERS, "rounds": ROUNDS, "hold_ms": 20, "limit": LIMIT, "log": 1}
        lease = hold_against(holder, kind, name)
        with together(Contender(language, "turns", muted, name, **options) for language in PROCESSES) as ready:
            start_round(ready)
            wait_until("all contenders wait", lambda: server.subscribers(name) == len(ready))
            free_since = server.time()
            lease.release()
            results = [turns(line) for line in finish(ready)]
    assert [one.grants for one in results] == [[ROUNDS] * WORKERS] * len(PROCESSES)
    log = steps(server, name)
    first = {step.process: step.at for step in reversed(log) if step.is_enter}
    gap = longest_gap(log, free_since)
    print(f"{kind}: {proxy.dropped} messages dropped, nobody inside for {gap:.3f} s at most")
    assert proxy.dropped > 0
    assert gap < STALL
    if kind == "read":
        assert max(first.values()) - free_since < STALL, "each reader must be granted by its own poll"
    else:
        assert most_holders_at_once(log) <= (LIMIT if kind == "semaphore" else 1)


@pytest.mark.parametrize(
    ("reply", "dropped"),
    [
        (b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n", True),
        (b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n", True),
        (b">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n", False),
        (b"*2\r\n:1\r\n$-1\r\n", False),
        (b"%1\r\n+mode\r\n_\r\n", False),
    ],
)
def test_the_proxy_distinguishes_messages_from_replies(reply: bytes, dropped: bool) -> None:
    assert is_message(reply) is dropped
    assert end_of_reply(reply + b"+OK\r\n", 0) == len(reply)
    assert all(end_of_reply(reply[:cut], 0) is None for cut in range(len(reply)))


def hold_against(client: steadlock.Client, kind: str, name: str) -> steadlock.Lease:
    """Acquires a lock that blocks waiters of this kind."""
    if kind == "semaphore":
        return client.semaphore(name, LIMIT).acquire(LIMIT)
    sides = client.read_write_lock(name)
    lock = {
        "lock": client.lock(name),
        "mutex": client.mutex(name),
        "fair": client.fair_lock(name),
        "read": sides.write,
        "write": sides.read,
    }[kind]
    lease = lock.try_acquire()
    assert lease
    return lease
