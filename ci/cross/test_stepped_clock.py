"""Tests the guarantees that hold, and those that do not, when the server's clock is set forward or back."""

import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from monitor import Monitor
from stepped_clock import SteppedServer, build, stepped_server

import steadlock
from programs import Contender, finish, start_round, together, wait_until, wait_until_queued

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the clock's library is for Linux")

HOUR = 3600
STEPS = [HOUR, -HOUR, 1, -1, -HOUR, 2 * HOUR, -1, -HOUR, 1]
WITH_TOKEN = ["lock", "mutex", "fair", "write"]
# The kind of the holder, and the kind of the waiter.
PAIRS = [(kind, kind) for kind in [*WITH_TOKEN, "semaphore"]] + [("read", "write"), ("write", "read")]
LEASE = 0.9
# Seconds until a holder learns of a loss: a renewal is due after a third of the lease, and docs/guarantees.md allows
# half a second more.
NOTICE_DELAY = LEASE / 3 + 0.5
# Seconds: longer than the longest poll interval of 750 ms.
POLL = 1.0
# Seconds: waiting writers block readers for two seconds at a time, and then a reader polls.
READERS_TURN = 2 + POLL
ROUNDS = 120
# The number of grants to contenders between two steps of the clock. It is so small that all steps are over before the
# fast languages have finished their rounds and a slow one has the lock alone.
GRANTS = 25
# All tests use one lock name, as each test has its own server.
NAME = "stepped"
STATE = f"steadlock:{{{NAME}}}:rw"
WAITERS = f"steadlock:{{{NAME}}}:alive"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("stepped_clock"))


@pytest.fixture
def stepped(library: Path, tmp_path: Path) -> Iterator[SteppedServer]:
    with stepped_server(library, tmp_path) as server:
        yield server


def test_keys_expire_by_the_stepped_clock(stepped: SteppedServer) -> None:
    stepped.store.set("key", "value", px=10_000)
    stepped.step(-HOUR)
    assert HOUR < stepped.store.pttl("key") / 1000 <= HOUR + 10
    stepped.step(HOUR + 5)
    assert 0 < stepped.store.pttl("key") / 1000 <= 5
    # One second more than the remaining time of the key, which can still be almost 5 s.
    stepped.step(6)
    assert stepped.store.exists("key") == 0


@pytest.mark.parametrize("kind", WITH_TOKEN)
def test_tokens_rise_with_every_grant_for_any_clock_step(stepped: SteppedServer, kind: str) -> None:
    """The test itself holds the lock at each step of the clock, since a JVM's `unlock` throws if the lease is lost."""
    languages = ["python-threads", "node", "jvm", "rust"]
    total = ROUNDS * len(languages)
    tokens_key = f"{NAME}:tokens"
    own = []
    with (
        Monitor(stepped.port) as monitor,
        steadlock.connect(stepped.url) as client,
        together(Contender(one, "count", stepped, NAME, kind=kind, rounds=ROUNDS) for one in languages) as ready,
    ):
        start_round(ready)
        for seconds in STEPS:
            total_grants = int(stepped.store.llen(tokens_key)) + GRANTS
            wait_until(f"there are {total_grants} grants", partial(has_length, stepped, tokens_key, total_grants))
            lease = lock_of(client, kind).try_acquire(wait=None)
            assert lease
            own.append(lease.token)
            stepped.step(seconds)
            lease.release()
        finish(ready)
        commands = [command.arguments for command in monitor.commands() if command.by_script]
    drawn = [int(arguments[2]) for arguments in commands if arguments[:2] == ("SET", f"steadlock:{{{NAME}}}:token")]
    all_tokens = own + [int(token) for token in stepped.store.lrange(tokens_key, 0, -1)]
    assert all(before < after for before, after in pairwise(drawn)), "a token is not higher than the one before"
    assert len(set(all_tokens)) == len(all_tokens) == total + len(STEPS)
    assert set(all_tokens) <= set(drawn)
    assert all(len(some) > 1 for some in between_steps(commands)), (
        "only one language was granted the lock between two steps"
    )


@pytest.mark.timing
@pytest.mark.parametrize(("kind", "waiting"), PAIRS)
def test_a_step_forward_ends_a_hold_and_the_holder_learns_of_it(
    stepped: SteppedServer, kind: str, waiting: str
) -> None:
    with held_with_waiter(stepped, kind, waiting) as (lease, waiter):
        stepped.step(HOUR)
        after = waiter.granted_within(POLL)
        assert lease.lost.wait(NOTICE_DELAY)
        assert lease.lost_reason in ("removed", "stolen")
        assert not lease.is_valid()
        assert lease.release() in ("expired", "stolen")
        assert_higher(lease, after)
        assert after.is_valid(), "the late release removed the record of the next owner"
        assert after.release() == "released"


@pytest.mark.timing
@pytest.mark.parametrize(("kind", "waiting"), PAIRS)
def test_the_release_of_a_fixed_lease_reports_that_a_step_forward_ended_it(
    stepped: SteppedServer, kind: str, waiting: str
) -> None:
    with held_with_waiter(stepped, kind, waiting, fixed_lease=30) as (lease, waiter):
        stepped.step(HOUR)
        after = waiter.granted_within(POLL)
        assert lease.is_valid(), "no call checks the record, so the client relies on its deadline"
        assert_higher(lease, after)
        assert lease.release() in ("expired", "stolen")
        assert after.release() == "released"


@pytest.mark.timing
@pytest.mark.parametrize("kind", ["lock", "mutex", "fair"])
def test_a_step_forward_by_less_than_the_rest_of_the_lease_ends_nothing(stepped: SteppedServer, kind: str) -> None:
    with held_with_waiter(stepped, kind, kind, lease=3 * LEASE) as (lease, waiter):
        stepped.step(1)
        wait_until(
            "the lease is renewed", lambda: stepped.store.pttl(NAME) > (3 * LEASE - 0.5) * 1000, within=2 * LEASE
        )
        assert not lease.lost.wait(LEASE)
        assert not waiter.is_granted()
        assert lease.release() == "released"
        after = waiter.granted_within(POLL)
        assert_higher(lease, after)
        assert after.release() == "released"


@pytest.mark.timing
@pytest.mark.parametrize("seconds", [-1, -HOUR])
@pytest.mark.parametrize(("kind", "waiting"), PAIRS)
def test_a_step_back_ends_nothing_and_the_release_grants_the_next_waiter(
    stepped: SteppedServer, kind: str, waiting: str, seconds: float
) -> None:
    with held_with_waiter(stepped, kind, waiting) as (lease, waiter):
        stepped.step(seconds)
        assert not lease.lost.wait(1.5 * LEASE)
        assert not waiter.is_granted()
        assert lease.release() == "released"
        after = waiter.granted_within(POLL)
        assert_higher(lease, after)
        assert after.release() == "released"


@pytest.mark.timing
@pytest.mark.parametrize("seconds", [-1, -HOUR])
@pytest.mark.parametrize(("kind", "waiting"), PAIRS)
def test_a_release_right_after_a_step_back_delays_a_waiter_by_one_poll_at_most(
    stepped: SteppedServer, kind: str, waiting: str, seconds: float
) -> None:
    with held_with_waiter(stepped, kind, waiting) as (lease, waiter):
        stepped.step(seconds)
        assert lease.release() == "released"
        after = waiter.granted_within(POLL)
        assert_higher(lease, after)
        assert after.release() == "released"


@pytest.mark.timing
@pytest.mark.parametrize(("kind", "waiting"), PAIRS)
def test_after_a_step_back_an_expired_fixed_lease_is_still_released(
    stepped: SteppedServer, kind: str, waiting: str
) -> None:
    with held_with_waiter(stepped, kind, waiting, fixed_lease=0.5) as (lease, waiter):
        stepped.step(-HOUR)
        assert lease.lost.wait(1), "the deadline of the client does not move"
        assert lease.lost_reason == "expired"
        assert_higher(lease, waiter.granted_within(POLL))


@pytest.mark.timing
@pytest.mark.parametrize(("kind", "waiting"), PAIRS)
def test_a_step_back_prolongs_the_lock_of_a_dead_holder_by_the_step(
    stepped: SteppedServer, kind: str, waiting: str
) -> None:
    back = 1
    with dead_holder_and_waiter(stepped, kind, waiting) as waiter:
        set_back = time.monotonic()
        stepped.step(-back)
        waiter.granted_within(LEASE + back + POLL)
        assert time.monotonic() - set_back >= back, "the record expired too early"


@pytest.mark.timing
@pytest.mark.parametrize(("kind", "waiting"), PAIRS)
def test_a_forced_release_ends_the_hour_long_lock_of_a_dead_holder(
    stepped: SteppedServer, kind: str, waiting: str
) -> None:
    with dead_holder_and_waiter(stepped, kind, waiting) as waiter:
        stepped.step(-HOUR)
        with pytest.raises(TimeoutError):
            waiter.granted_within(LEASE + POLL)
        with steadlock.connect(stepped.url) as operator:
            assert operator.force_release(lock_of(operator, kind))
        waiter.granted_within(POLL)


@pytest.mark.timing
@pytest.mark.parametrize("seconds", [1, -1, -HOUR])
def test_fair_waiters_keep_their_order_after_their_first_poll_after_a_step(
    stepped: SteppedServer, seconds: float
) -> None:
    with (
        held_with_waiter(stepped, "fair", "fair", lease=3 * LEASE) as (lease, first),
        Waiter(stepped, "fair") as second,
    ):
        wait_until_queued(stepped.store, NAME, 2)
        stepped.step(seconds)
        stepped_at = stepped.time()
        with Waiter(stepped, "fair") as third:
            wait_until_queued(stepped.store, NAME, 3)
            wait_until(
                "the server has polls of all waiters",
                lambda: all(stepped_at <= polled <= stepped.time() for polled in last_polls(stepped)),
            )
            for waiter in (first, second, third):
                assert lease.release() == "released"
                after = waiter.granted_within(POLL)
                assert_higher(lease, after)
                lease = after
            assert lease.release() == "released"


@pytest.mark.timing
@pytest.mark.parametrize("seconds", [-1, -HOUR, 1, 10, HOUR])
def test_a_release_right_after_a_step_drops_no_fair_waiter(stepped: SteppedServer, seconds: float) -> None:
    with held_with_waiter(stepped, "fair", "fair") as (lease, first), ExitStack() as stack:
        waiters = [first, *(stack.enter_context(Waiter(stepped, "fair")) for _ in range(3))]
        wait_until_queued(stepped.store, NAME, len(waiters))
        stepped.step(seconds)
        lease.release()
        while waiters:
            wait_until(
                "the next waiter is granted the lock",
                lambda: any(waiter.is_granted() for waiter in waiters),
                within=POLL,
            )
            granted = next(waiter for waiter in waiters if waiter.is_granted())
            after = granted.granted_within(0)
            assert_higher(lease, after)
            assert after.release() == "released"
            lease = after
            waiters.remove(granted)


@pytest.mark.timing
def test_a_reader_may_overtake_a_waiting_writer_after_a_step_back(stepped: SteppedServer) -> None:
    """No process dies. While one client reads and another waits to write, a third client may read in its turn."""
    with held_with_waiter(stepped, "read", "write") as (lease, writer):
        stepped.step(-HOUR)
        with Waiter(stepped, "read") as reader:
            after = reader.granted_within(READERS_TURN)
            assert not writer.is_granted()
            assert after.release() == "released"
        assert lease.release() == "released"
        assert writer.granted_within(POLL).release() == "released"


@pytest.mark.timing
def test_the_mark_of_a_dead_writer_counts_for_two_seconds_after_a_step_back(stepped: SteppedServer) -> None:
    with steadlock.connect(stepped.url) as client:
        lease = lock_of(client, "read").try_acquire()
        assert lease
        with Contender("python-threads", "hold", stepped, NAME, kind="write") as writer:
            wait_until("the writer waits", lambda: stepped.store.hget(STATE, "mark"))
            writer.kill()
            stepped.step(-HOUR)
        with Waiter(stepped, "read") as reader:
            assert reader.granted_within(READERS_TURN).release() == "released"


@pytest.mark.timing
def test_readers_that_gave_up_do_not_block_writers_after_a_step_back(stepped: SteppedServer) -> None:
    """No process dies, and no client holds the lock after the step."""
    with steadlock.connect(stepped.url) as client, steadlock.connect(stepped.url) as other:
        lease = lock_of(client, "write").try_acquire()
        assert lease
        assert lock_of(other, "read").try_acquire(wait=0.2) is None
        assert lease.release() == "released"
        stepped.step(-HOUR)
        with Waiter(stepped, "write") as writer:
            assert_higher(lease, writer.granted_within(POLL))


def between_steps(commands: list[tuple[str, ...]]) -> list[set[str]]:
    """Returns, for each grant of the test itself, the clients that were granted the lock since its previous one.

    The client of the test is the one with the fewest grants."""
    owners = [owner for owner in map(granted_to, commands) if owner]
    clients = [owner.partition(":")[0] for owner in owners]
    own, count = Counter(clients).most_common()[-1]
    assert count == len(STEPS)
    steps = [place for place, client in enumerate(clients) if client == own]
    return [set(clients[before + 1 : place]) for before, place in pairwise([-1, *steps])]


def granted_to(arguments: tuple[str, ...]) -> str | None:
    """Returns the owner whose record a script's command writes."""
    if arguments[:3] == ("HSET", STATE, "writer"):
        return arguments[3]
    return arguments[2] if arguments[:2] in (("HSET", NAME), ("SET", NAME)) else None


class Waiter:
    """A separate client that waits for the lock while its context is open."""

    def __init__(self, server: SteppedServer, kind: str) -> None:
        self._client = steadlock.connect(server.url, lease=LEASE)
        self._thread = ThreadPoolExecutor(1)
        lock = lock_of(self._client, kind)
        self._grant: Future[steadlock.Lease | None] = self._thread.submit(lambda: lock.try_acquire(wait=None))

    def is_granted(self) -> bool:
        return self._grant.done()

    def granted_within(self, seconds: float) -> steadlock.Lease:
        lease = self._grant.result(seconds)
        assert lease
        return lease

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # Closing the client ends a wait that is not over.
        self._client.close()
        self._thread.shutdown()


@contextmanager
def held_with_waiter(
    server: SteppedServer, kind: str, waiting: str, lease: float = LEASE, fixed_lease: float | None = None
) -> Iterator[tuple[steadlock.Lease, Waiter]]:
    """Yields a lease and a waiter for its lock. The lease is auto-renewed unless `fixed_lease` is its fixed length."""
    with steadlock.connect(server.url, lease=lease) as client:
        held = lock_of(client, kind).try_acquire(lease=fixed_lease)
        assert held
        with Waiter(server, waiting) as waiter:
            wait_until("the waiter has subscribed", lambda: server.subscribers(NAME) == 1)
            yield held, waiter


@contextmanager
def dead_holder_and_waiter(server: SteppedServer, kind: str, waiting: str) -> Iterator[Waiter]:
    """Yields a waiter for a lock whose holder was killed."""
    lease_ms = int(LEASE * 1000)
    with Contender("python-threads", "hold", server, NAME, kind=kind, lease_ms=lease_ms) as dying:
        dying.expect("held")
        with Waiter(server, waiting) as waiter:
            wait_until("the waiter has subscribed", lambda: server.subscribers(NAME) > 0)
            dying.kill()
            yield waiter


def lock_of(client: steadlock.Client, kind: str) -> steadlock.Lock | steadlock.Semaphore:
    sides = client.read_write_lock(NAME)
    locks: dict[str, steadlock.Lock | steadlock.Semaphore] = {
        "lock": client.lock(NAME),
        "mutex": client.mutex(NAME),
        "fair": client.fair_lock(NAME),
        "read": sides.read,
        "write": sides.write,
        "semaphore": client.semaphore(NAME, 1),
    }
    return locks[kind]


def assert_higher(before: steadlock.Lease, after: steadlock.Lease) -> None:
    """Checks that the later grant has the higher token, if both kinds have tokens."""
    if before.token is not None and after.token is not None:
        assert after.token > before.token


def has_length(server: SteppedServer, key: str, count: int) -> bool:
    return int(server.store.llen(key)) >= count


def last_polls(server: SteppedServer) -> list[float]:
    """Returns the time of each fair waiter's last attempt, in seconds of the server's clock."""
    return [int(value.split()[0]) / 1_000_000 for value in server.store.hvals(WAITERS)]
