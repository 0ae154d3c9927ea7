"""Tests of the classes of errors, and of bad input: each gives a typed error, and writes nothing."""

from __future__ import annotations

import asyncio
import math
import pickle
from typing import Any

import pytest
from servers import RedisServer, Store, store_of, unused_port

import steadlock
from steadlock import _native, aio, errors

INVALID_NAMES = ["", "n" * 513, "a\0b", "a{b", "{}z", "a}b", "steadlock:x", "redisson_x", "a\ud800b"]
INVALID_LEASES = [0, -1, math.nan, math.inf, -math.inf, 0.099, 24 * 3600 + 1, 10**400]
INVALID_WAITS = [-2, math.nan, -math.inf]
INVALID_URLS = [
    "",
    "nonsense",
    "http://localhost",
    "redis://",
    "redis://host:port",
    "redis://h:6379/x",
    "rediss://h#insecure",
]


def test_each_error_kind_has_a_class() -> None:
    # Only Rust has an error class for `Cancelled`; the other languages use their own.
    assert {*_native.ERROR_KINDS} - {"Cancelled"} == {*errors._BY_KIND}
    for kind, found in errors._BY_KIND.items():
        assert found.__name__ == f"{kind}Error"
        assert getattr(steadlock, found.__name__) is found
        assert issubclass(found, steadlock.SteadlockError)


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (steadlock.ClosedError, RuntimeError),
        (steadlock.ForkedError, RuntimeError),
        (steadlock.InvalidArgumentError, ValueError),
        (steadlock.LockLostError, RuntimeError),
        (steadlock.LockTimeoutError, TimeoutError),
        (steadlock.MisconfiguredError, RuntimeError),
        (steadlock.NotOwnerError, RuntimeError),
        (steadlock.SkippedError, RuntimeError),
        (steadlock.UnavailableError, ConnectionError),
    ],
)
def test_errors_derive_from_builtin_exceptions(error: type[steadlock.SteadlockError], builtin: type[Exception]) -> None:
    assert issubclass(error, builtin)


def test_errors_can_be_pickled() -> None:
    error = steadlock.LockTimeoutError("text", lock_name="door", operation="acquire", holder=steadlock.Holder("o", 1.5))
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.lock_name, again.operation, again.holder) == (
        "text",
        "door",
        "acquire",
        steadlock.Holder("o", 1.5),
    )
    again = pickle.loads(pickle.dumps(steadlock.UnavailableError("text", node="redis://host:1/0", retryable=True)))
    assert (again.node, again.retryable) == ("redis://host:1/0", True)
    again = pickle.loads(pickle.dumps(steadlock.LockLostError("text", cause="why", reason="expired")))
    assert (again.cause, again.reason) == ("why", "expired")


def test_the_cause_contains_no_advice() -> None:
    url = f"redis://127.0.0.1:{unused_port()}"
    with pytest.raises(steadlock.UnavailableError, match="is the server running") as caught:
        steadlock.connect(url)
    cause = caught.value.cause
    assert cause is not None
    assert "refused" in cause
    assert "is the server running" not in cause
    with steadlock.connect("memory://") as client:
        assert client.mutex("door").acquire()
        with pytest.raises(steadlock.LockTimeoutError) as refused, client.mutex("door", wait=0):
            pass
        assert refused.value.cause is not None
        assert refused.value.cause.startswith("held by ")
        with pytest.raises(steadlock.InvalidArgumentError) as bad:
            client.lock("").acquire()
        assert bad.value.cause is None


@pytest.fixture
def empty_server_client(server: RedisServer, store: Store) -> Any:
    """A client of a server that must stay empty."""
    with steadlock.connect(server.url) as client:
        yield client
    assert store.keys("*") == []


@pytest.mark.parametrize("name", INVALID_NAMES, ids=ascii)
def test_invalid_names_are_refused(empty_server_client: steadlock.Client, name: str) -> None:
    with pytest.raises(steadlock.InvalidArgumentError):
        empty_server_client.lock(name).acquire()


@pytest.mark.parametrize("lease", INVALID_LEASES)
def test_invalid_leases_are_refused(empty_server_client: steadlock.Client, lease: float) -> None:
    with pytest.raises(steadlock.InvalidArgumentError):
        empty_server_client.lock("door", lease=lease).acquire()
    with pytest.raises(steadlock.InvalidArgumentError):
        empty_server_client.lock("door").try_acquire(lease=lease)
    with pytest.raises(steadlock.InvalidArgumentError):
        empty_server_client.lock("door").try_acquire(lease=lease, renew=True)
    with pytest.raises(steadlock.InvalidArgumentError):
        steadlock.connect("memory://", lease=lease)


@pytest.mark.parametrize("wait", INVALID_WAITS)
def test_invalid_waits_are_refused(empty_server_client: steadlock.Client, wait: float) -> None:
    with pytest.raises(steadlock.InvalidArgumentError):
        empty_server_client.lock("door").try_acquire(wait=wait)
    with pytest.raises(steadlock.InvalidArgumentError):
        empty_server_client.lock("door").acquire(timeout=wait)


def test_a_timeout_without_blocking_is_refused(empty_server_client: steadlock.Client) -> None:
    with pytest.raises(steadlock.InvalidArgumentError):
        empty_server_client.lock("door").acquire(blocking=False, timeout=1)


@pytest.mark.parametrize("wrong", ["5", True, b"5"])
def test_a_wrong_type_of_duration_is_a_type_error(empty_server_client: steadlock.Client, wrong: Any) -> None:
    with pytest.raises(TypeError):
        empty_server_client.lock("door", lease=wrong)
    with pytest.raises(TypeError):
        empty_server_client.lock("door").acquire(timeout=wrong)


def test_a_name_of_bytes_is_a_type_error(empty_server_client: steadlock.Client) -> None:
    with pytest.raises(TypeError):
        empty_server_client.lock(b"door")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", INVALID_NAMES, ids=ascii)
async def test_invalid_names_are_refused_in_asyncio(aclient: aio.Client, name: str) -> None:
    with pytest.raises(steadlock.InvalidArgumentError):
        await aclient.lock(name).acquire()


@pytest.mark.parametrize("lease", INVALID_LEASES)
async def test_invalid_leases_are_refused_in_asyncio(aclient: aio.Client, lease: float) -> None:
    with pytest.raises(steadlock.InvalidArgumentError):
        await aclient.lock("door").try_acquire(lease=lease)
    with pytest.raises(steadlock.InvalidArgumentError):
        await aclient.lock("door").try_acquire(lease=lease, renew=True)
    assert not await aclient.lock("door").locked()


@pytest.mark.parametrize("url", INVALID_URLS)
def test_malformed_urls_are_refused(url: str) -> None:
    with pytest.raises((steadlock.InvalidArgumentError, steadlock.MisconfiguredError)):
        steadlock.connect(url)
    with pytest.raises((steadlock.InvalidArgumentError, steadlock.MisconfiguredError)):
        asyncio.run(enter(url))


async def enter(url: str) -> None:
    async with aio.connect(url):
        pass


def test_a_missing_url_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STEADLOCK_URL", raising=False)
    with pytest.raises(steadlock.MisconfiguredError, match="STEADLOCK_URL"):
        steadlock.connect()


def test_a_refused_connection_is_unavailable() -> None:
    url = f"redis://127.0.0.1:{unused_port()}"
    with pytest.raises(steadlock.UnavailableError):
        steadlock.connect(url, connect_timeout=1)
    with pytest.raises(steadlock.UnavailableError):
        asyncio.run(enter(url))


def test_the_error_for_a_wrong_password_does_not_contain_it() -> None:
    with RedisServer("--requirepass", "right") as server:
        url = f"redis://:s3cret-guess@127.0.0.1:{server.port}"
        with pytest.raises(steadlock.MisconfiguredError) as caught:
            steadlock.connect(url)
        assert "s3cret-guess" not in "".join(map(str, (caught.value, caught.value.args, repr(caught.value))))
        with steadlock.connect(f"redis://:right@127.0.0.1:{server.port}") as client, client.lock("door"):
            pass


def test_a_key_of_the_wrong_type_is_misconfigured(server: RedisServer, store: Store) -> None:
    store.set("door", "not a lock")
    with steadlock.connect(server.url) as client:
        with pytest.raises(steadlock.MisconfiguredError):
            client.lock("door").acquire()
        with pytest.raises(steadlock.MisconfiguredError):
            client.lock("door").locked()
    assert store.get("door") == "not a lock"
    assert store.keys("door*") == ["door"]


def test_a_corrupt_token_is_misconfigured_and_not_changed(server: RedisServer, store: Store) -> None:
    store.set("steadlock:{door}:token", "zero")
    with steadlock.connect(server.url) as client, pytest.raises(steadlock.MisconfiguredError):
        client.lock("door").acquire()
    assert store.keys("*door*") == ["steadlock:{door}:token"]


def test_a_closed_client_refuses_everything(url: str) -> None:
    client = steadlock.connect(url)
    lock = client.lock("door")
    client.close()
    client.close()
    for operation in (lock.acquire, lock.try_acquire, lock.locked, lock.__enter__):
        with pytest.raises(steadlock.ClosedError):
            operation()


async def test_a_closed_client_of_asyncio_refuses_everything(url: str) -> None:
    client = await aio.connect(url)
    lock = client.lock("door")
    await client.close()
    for operation in (lock.acquire, lock.try_acquire, lock.locked, lock.__aenter__):
        with pytest.raises(steadlock.ClosedError):
            await operation()


def test_a_stopped_server_is_unavailable(own_server: RedisServer) -> None:
    with steadlock.connect(own_server.url, command_timeout=0.3, lease=1) as client:
        own_server.kill()
        with pytest.raises(steadlock.UnavailableError):
            client.lock("door").try_acquire()
        with pytest.raises(steadlock.UnavailableError):
            client.lock("door").acquire()
        own_server.start()
        assert client.lock("door").acquire(timeout=10)
        assert client.lock("door").release() == "released"
        assert store_of(own_server).exists("door") == 0
