"""Tests multi-locks: two programs that name the members in opposite orders never deadlock."""

import pytest

import steadlock
from programs import Contender, Server, contend, turns

ROUNDS = 500


@pytest.mark.parametrize(("one", "other"), [("python-threads", "node"), ("jvm", "rust"), ("node", "jvm")])
def test_multi_locks_in_opposite_orders_do_not_deadlock_and_leave_no_records(
    server: Server, one: str, other: str
) -> None:
    a, b = f"multi-a-{one}-{other}", f"multi-b-{one}-{other}"
    results = contend(
        Contender(language, "turns", server, names, kind="multi", rounds=ROUNDS)
        for language, names in ((one, f"{a},{b}"), (other, f"{b},{a}"))
    )
    assert [turns(line).grants for line in results] == [[ROUNDS], [ROUNDS]]
    assert server.store.exists(a, b) == 0, "a hold was left behind"
    with steadlock.connect(server.url) as client:
        assert client.multi_lock([client.lock(b), client.lock(a)]).try_acquire()
