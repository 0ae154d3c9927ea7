"""Tests the package for WebAssembly and the native Python client on one lock: by notification, by poll, over HTTP."""

import time

import pytest
from monitor import Monitor

import steadlock
from programs import Contender, Server, contend, wait_until

KINDS = ["lock", "mutex", "fair", "read", "write", "semaphore", "multi"]


def acquire(client: steadlock.Client, kind: str, name: str) -> steadlock.Lease:
    """Acquires a lock that blocks waiters of this kind. The kinds are named as in the contenders."""
    if kind == "semaphore":
        return client.semaphore(name, 1).acquire()
    both = client.read_write_lock(name)
    locks = {
        "lock": lambda: client.lock(name),
        "mutex": lambda: client.mutex(name),
        "fair": lambda: client.fair_lock(name),
        # Only a writer blocks a reader.
        "read": lambda: both.write,
        "write": lambda: both.write,
        "multi": lambda: client.multi_lock([client.lock(one) for one in name.split(",")]),
    }
    lease = locks[kind]().hold().__enter__()
    assert isinstance(lease, steadlock.Lease)
    return lease


def attempts(monitor: Monitor, name: str) -> int:
    """Returns the number of script calls with keys of this name."""
    calls = [command.arguments for command in monitor.commands() if command.arguments[0].lower().startswith("eval")]
    return sum(any(name in argument for argument in call) for call in calls)


@pytest.mark.parametrize("listen", [1, 0], ids=["by message", "by poll"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_client_waits_for_the_other(server: Server, kind: str, listen: int) -> None:
    name = f"web-{kind}-{listen},web-{kind}-{listen}-b" if kind == "multi" else f"web-{kind}-{listen}"
    with steadlock.connect(server.url) as client:
        lease = acquire(client, kind, name)
        with (
            Monitor(server.port) as monitor,
            Contender("web", "hold", server, name, kind=kind, listen=listen) as web,
        ):
            wait_until("the waiter has made two attempts", lambda: attempts(monitor, name.partition(",")[0]) >= 2)
            time.sleep(0.2)
            assert not web.has_printed(), "the waiter was granted the lock while the lock was held"
            lease.release()
            web.expect("held")
            web.start_round()
            web.expect("released")
            acquire(client, kind, name).release()
            web.finish()


@pytest.mark.parametrize("kind", ["lock", "mutex", "fair", "write", "semaphore"])
def test_no_update_is_lost_over_http(rest: tuple[Server, str], kind: str) -> None:
    server, http = rest
    name = f"web-http-{kind}"
    contend(
        [
            Contender("web", "count", server, name, kind=kind, workers=4, rounds=25, http=http),
            Contender("python-threads", "count", server, name, kind=kind, workers=4, rounds=25),
        ]
    )
    assert server.store.get(f"{name}:count") == "200"
    if kind != "semaphore":
        tokens = [int(token) for token in server.store.lrange(f"{name}:tokens", 0, -1)]
        assert tokens == sorted(set(tokens))
        assert len(tokens) == 200


def test_a_lock_whose_record_is_removed_is_reported_as_lost(server: Server) -> None:
    name = "web-removed"
    with (
        steadlock.connect(server.url) as client,
        Contender("web", "watch", server, name, lease_ms=3000) as web,
    ):
        web.expect("held")
        assert client.force_release(client.lock(name))
        assert client.lock(name).try_acquire() is not None
        web.expect("stolen")
        web.finish()


def test_a_stopped_holder_finds_its_lease_expired_and_has_the_lower_token(server: Server) -> None:
    name = "web-stopped"
    with (
        steadlock.connect(server.url) as client,
        Contender("web", "watch", server, name, lease_ms=500) as web,
    ):
        web.expect("held")
        token = int(str(server.store.get(f"steadlock:{{{name}}}:token")))
        web.process.send_signal(19)
        lease = client.lock(name).try_acquire(wait=5)
        assert lease is not None
        assert lease.token is not None
        assert lease.token > token
        web.process.send_signal(18)
        # The deadline of this lease passed before the other grant, so the reason is `expired` and not `stolen`.
        web.expect("expired")
        assert lease.is_valid()
        lease.release()


def test_a_cancelled_wait_leaves_no_record(server: Server) -> None:
    name = "web-cancelled"
    with steadlock.connect(server.url) as client:
        lease = client.lock(name).try_acquire()
        assert lease is not None
        with Contender("web", "cancel", server, name) as web:
            web.expect("waiting")
            wait_until("the waiter has subscribed", lambda: server.subscribers(name) == 1)
            web.start_round()
            web.expect("cancelled")
            web.finish()
        lease.release()
        again = client.lock(name).try_acquire()
        assert again is not None
        again.release()
    wait_until("no record is left", lambda: not server.store.exists(name))
