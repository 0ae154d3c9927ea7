"""Tests of the spans of OpenTelemetry for a client with threads."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from opentelemetry import context
from servers import RedisServer
from telemetry import Collected, attributes, eventually_waits, id_of, is_error, parent_of
from test_forks import in_child

import steadlock
from steadlock.opentelemetry import instrument

WITHOUT_THE_API = """
import sys
sys.modules["opentelemetry"] = None
import steadlock
with steadlock.connect("memory://", metrics=True) as client, client.lock("stock"):
    pass
try:
    import steadlock.opentelemetry
except ModuleNotFoundError as error:
    assert "steadlock[opentelemetry]" in str(error), error
else:
    raise AssertionError("steadlock.opentelemetry was imported")
"""


@pytest.fixture
def collected() -> Collected:
    return Collected()


@pytest.fixture
def client(url: str, collected: Collected) -> Iterator[steadlock.Client]:
    with steadlock.connect(url, metrics=True, lease=1) as client:
        collected.instrument(client)
        yield client


def in_thread(work: Callable[[], object]) -> None:
    """Runs `work` in another thread, and raises its error."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def test_a_lock_has_a_wait_and_a_hold_under_the_span_that_asks_for_it(
    client: steadlock.Client, collected: Collected
) -> None:
    with collected.tracer.start_as_current_span("order") as order, client.lock("stock:42") as lease:
        assert not collected.holds()
        with collected.tracer.start_as_current_span("inside") as inside, client.lock("stock:42") as again:
            pass
    outer, inner = collected.waits()
    assert [parent_of(outer), parent_of(inner)] == [id_of(order), id_of(inside)]
    common = {"steadlock.kind": "lock", "steadlock.lock": "stock:42"}
    for wait in (outer, inner):
        assert attributes(wait) == common | {"steadlock.outcome": "granted"}
        assert not is_error(wait)
    inner_hold, outer_hold = collected.holds()
    for hold, under, held in ((inner_hold, inside, again), (outer_hold, order, lease)):
        assert parent_of(hold) == id_of(under)
        assert attributes(hold) == common | {"steadlock.token": held.token, "steadlock.outcome": "released"}
        assert not is_error(hold)
    assert outer.start_time is not None
    assert outer.end_time is not None
    assert outer_hold.start_time is not None
    assert outer.start_time <= outer.end_time <= outer_hold.start_time


def each_call(client: steadlock.Client) -> dict[str, Callable[[], None]]:
    """Returns every way to acquire and release, by the kind of lock."""

    def scope(lock: Any) -> Callable[[], None]:
        def work() -> None:
            with lock:
                pass

        return work

    def fair() -> None:
        lock = client.fair_lock("stock:1")
        assert lock.acquire()
        lock.release()

    def reader() -> None:
        with client.read_write_lock("stock:2").read.hold(wait=5):
            pass

    def writer() -> None:
        lease = client.read_write_lock("stock:2").write.try_acquire()
        assert lease is not None
        lease.release()

    def permits() -> None:
        client.semaphore("stock:3", 3).acquire(2).release()

    def mutex() -> None:
        assert client.mutex("stock:4").acquire(timeout=5)
        client.mutex("stock:4").release()

    return {
        "lock": client.synchronized("stock:5")(lambda: None),
        "mutex": mutex,
        "fair_lock": fair,
        "read_lock": reader,
        "write_lock": writer,
        "semaphore": permits,
        "multi_lock": scope(client.multi_lock([client.lock("stock:6"), client.semaphore("stock:7", 1)])),
    }


def test_each_kind_and_each_call_has_both_spans(client: steadlock.Client, collected: Collected) -> None:
    for kind, acquire_and_release in each_call(client).items():
        with collected.tracer.start_as_current_span(kind) as under:
            acquire_and_release()
        wait, hold = collected.waits()[-1], collected.holds()[-1]
        for span in (wait, hold):
            assert parent_of(span) == id_of(under)
            assert attributes(span)["steadlock.kind"] == kind
        assert attributes(hold)["steadlock.outcome"] == "released"
    assert len(collected.waits()) == len(collected.holds()) == 7
    assert attributes(collected.holds()[-1])["steadlock.lock"] == "stock:6, stock:7"
    assert "steadlock.token" not in attributes(collected.holds()[-1])


def test_a_timeout_is_not_an_error_span(client: steadlock.Client, collected: Collected) -> None:
    with client.lock("stock:42"):
        in_thread(lambda: client.lock("stock:42").try_acquire(0.25))
        in_thread(lambda: client.lock("stock:42").acquire(blocking=False))
    assert collected.outcomes() == ["granted", "timed_out", "timed_out"]
    assert not any(is_error(span) for span in collected.waits())
    assert len(collected.holds()) == 1


def test_a_hold_ended_in_another_thread_keeps_its_parent(client: steadlock.Client, collected: Collected) -> None:
    with collected.tracer.start_as_current_span("asks") as asks:
        lease = client.lock("stock:42").try_acquire()
    assert lease is not None

    def release() -> None:
        with collected.tracer.start_as_current_span("elsewhere"):
            assert lease.release() == lease.release() == "released"

    in_thread(release)
    assert parent_of(collected.hold()) == id_of(asks)


def test_spans_without_a_parent_are_roots(client: steadlock.Client, collected: Collected) -> None:
    with client.lock("stock:42"):
        pass
    assert [parent_of(span) for span in (*collected.waits(), *collected.holds())] == [None, None]


def test_a_hold_ends_with_the_loss(client: steadlock.Client, collected: Collected) -> None:
    with collected.tracer.start_as_current_span("asks") as asks:
        lease = client.lock("stock:42").try_acquire()
    assert lease is not None
    assert client.force_release(client.lock("stock:42"))
    hold = collected.hold()
    assert parent_of(hold) == id_of(asks)
    assert attributes(hold)["steadlock.outcome"] == "lost"
    assert attributes(hold)["steadlock.reason"] == "removed"
    assert is_error(hold)
    lease.release()
    assert len(collected.holds()) == 1


def test_an_unreleased_fixed_lease_ends_its_span_at_expiry(client: steadlock.Client, collected: Collected) -> None:
    client.lock("stock:42", lease=0.1).acquire()
    hold = collected.hold()
    assert attributes(hold)["steadlock.reason"] == "expired"
    assert is_error(hold)


def test_a_release_that_finds_a_loss_ends_the_span(client: steadlock.Client, collected: Collected) -> None:
    lease = client.lock("stock:42").try_acquire()
    assert lease is not None
    assert client.force_release(client.lock("stock:42"))
    outcome = lease.release()
    hold = collected.hold()
    # A renewal can have found the loss before.
    assert attributes(hold)["steadlock.outcome"] in (outcome, "lost")
    assert attributes(hold)["steadlock.reason"] in ("expired", "removed")
    assert is_error(hold)


def test_reaching_max_hold_is_not_an_error_span(client: steadlock.Client, collected: Collected) -> None:
    client.lock("stock:42", max_hold=0.2).acquire()
    hold = collected.hold()
    assert attributes(hold)["steadlock.outcome"] == "lost"
    assert attributes(hold)["steadlock.reason"] == "max_hold"
    assert not is_error(hold)


def test_a_release_through_another_kind_ends_the_span(client: steadlock.Client, collected: Collected) -> None:
    client.fair_lock("stock:42").acquire()
    assert client.lock("stock:42").release() == "released"
    assert attributes(collected.hold())["steadlock.outcome"] == "released"


def test_an_error_span_names_the_error_type(client: steadlock.Client, collected: Collected) -> None:
    with pytest.raises(steadlock.InvalidArgumentError):
        client.lock("stock:42", lease=1e9).acquire()
    (wait,) = collected.waits()
    assert attributes(wait)["steadlock.outcome"] == "refused"
    assert attributes(wait)["error.type"] == "InvalidArgumentError"
    assert is_error(wait)
    assert "stock:42" in (wait.status.description or "")


def test_a_name_is_shown_without_a_password(client: steadlock.Client, collected: Collected) -> None:
    with client.lock("redis://user:secret@host/1"):
        pass
    for span in (*collected.waits(), *collected.holds()):
        assert "host" in attributes(span)["steadlock.lock"]
        assert "secret" not in span.to_json()


def test_an_interrupted_wait_is_cancelled(client: steadlock.Client, collected: Collected) -> None:
    held = threading.Event()
    over = threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def hold() -> None:
        with client.lock("stock:42"):
            held.set()
            eventually_waits(client.metrics)
            signal.pthread_kill(main, signal.SIGINT)
            over.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(20)
    with pytest.raises(KeyboardInterrupt):
        client.lock("stock:42").acquire()
    over.set()
    thread.join()
    assert collected.outcomes() == ["granted", "cancelled"]
    assert not is_error(collected.waits()[1])


def test_close_ends_the_spans_of_holds_and_waits(client: steadlock.Client, collected: Collected) -> None:
    client.lock("stock:42").acquire()

    def wait() -> None:
        with pytest.raises(steadlock.ClosedError):
            client.lock("stock:42").acquire()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait)
        eventually_waits(client.metrics)
        client.close()
        waiting.result()
    (hold,) = collected.holds()
    assert attributes(hold)["steadlock.outcome"] == "lost"
    assert attributes(hold)["steadlock.reason"] == "closed"
    assert not is_error(hold)
    assert collected.outcomes() == ["granted", "closed"]
    assert is_error(collected.waits()[1])


def test_outages_end_spans_as_errors(own_server: RedisServer, collected: Collected) -> None:
    with steadlock.connect(own_server.url, metrics=True, breaker_failures=1, command_timeout=1) as client:
        collected.instrument(client)
        own_server.kill()
        with pytest.raises(steadlock.UnavailableError):
            client.lock("stock:1", on_unavailable="fail").acquire(timeout=1)
        with client.lock("stock:2", on_unavailable="local") as lease:
            assert lease.degraded
        assert client.lock("stock:3", on_unavailable="skip").try_acquire() is None
    assert collected.outcomes() == ["unavailable", "degraded", "skipped"]
    assert [is_error(span) for span in collected.waits()] == [True, False, False]
    assert attributes(collected.waits()[0])["error.type"] == "UnavailableError"
    assert attributes(collected.hold())["steadlock.degraded"] is True


def test_a_redlock_has_one_pair_of_spans(collected: Collected) -> None:
    urls = [f"memory://telemetry-{number}" for number in range(3)]
    with steadlock.redlock(urls, metrics=True) as client:
        collected.instrument(client)
        for lock in (client.lock("stock:1"), client.mutex("stock:2")):
            with lock:
                pass
        for kind in ("lock", "mutex"):
            assert f'steadlock_hold_seconds_count{{kind="{kind}",group="stock"}} 1\n' in client.metrics()
    for spans in (collected.waits(), collected.holds()):
        assert [attributes(span)["steadlock.kind"] for span in spans] == ["lock", "mutex"]


def test_the_span_of_an_ended_thread_ends_when_its_lease_is_dropped(
    client: steadlock.Client, collected: Collected
) -> None:
    def leave() -> object:
        in_thread(lambda: client.lock("stock:42").acquire())
        return collected.hold()

    with pytest.warns(RuntimeWarning, match="still held by a thread"):
        leave()
    hold = collected.hold()
    assert attributes(hold)["steadlock.outcome"] == "unknown"


def test_a_forked_child_ends_no_span_of_its_parent(server: RedisServer, collected: Collected) -> None:
    with steadlock.connect(server.url, metrics=True) as client:
        collected.instrument(client)
        lease = client.lock("stock:42").try_acquire()
        assert lease is not None

        def work() -> None:
            with pytest.raises(steadlock.ForkedError):
                lease.release()
            assert not collected.holds()
            with client.lock("stock:43"):
                pass
            assert attributes(collected.hold())["steadlock.lock"] == "stock:43"

        in_child(work)
        assert not collected.holds()
        lease.release()
    assert attributes(collected.hold())["steadlock.outcome"] == "released"


def test_spans_of_many_threads_have_the_parents_of_their_own(client: steadlock.Client, collected: Collected) -> None:
    start = threading.Barrier(8)

    def work(number: int) -> list[int]:
        start.wait()
        parents = []
        for turn in range(5):
            with collected.tracer.start_as_current_span(f"{number}-{turn}") as under:
                parents.append(id_of(under))
                with client.lock(f"stock:{turn % 2}"):
                    assert context.get_current()
        return parents

    with ThreadPoolExecutor(8) as pool:
        parents = sorted(one for some in pool.map(work, range(8)) for one in some)
    assert sorted(parent_of(span) or 0 for span in collected.waits()) == parents
    assert sorted(parent_of(span) or 0 for span in collected.holds()) == parents
    assert collected.outcomes() == ["granted"] * 40


def before_the_span_of_a_hold(client: steadlock.Client, collected: Collected, work: Callable[[], object]) -> None:
    """Makes the client run `work` between each grant and the start of its span."""

    class Tracer:
        def start_span(self, name: str, *args: Any, **kwargs: Any) -> Any:
            if name == "steadlock.hold":
                work()
            return collected.tracer.start_span(name, *args, **kwargs)

    measuring: Any = client._connection.telemetry
    measuring.tracer = Tracer()


def test_a_loss_can_come_before_the_span_of_its_hold(
    client: steadlock.Client, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_reported = threading.Event()
    watched = client._connection.watched
    catch_up = watched.catch_up

    def catch_up_and_report() -> None:
        lost = watched.telemetry is not None and watched.telemetry.is_behind()
        catch_up()
        if lost:
            is_reported.set()

    monkeypatch.setattr(watched, "catch_up", catch_up_and_report)
    before_the_span_of_a_hold(client, collected, lambda: is_reported.wait(20))
    client.lock("stock:42", lease=0.1).acquire()
    assert is_reported.is_set()
    assert attributes(collected.hold())["steadlock.reason"] == "expired"


def test_uninstrument_before_the_span_of_a_hold_leaves_no_open_span(url: str, collected: Collected) -> None:
    with steadlock.connect(url, metrics=True) as client:
        instrumentation = collected.instrument(client)
        before_the_span_of_a_hold(client, collected, instrumentation.uninstrument)
        with client.lock("stock:42"):
            assert len(collected.holds()) == 1
        assert "steadlock.outcome" not in attributes(collected.hold())


def test_uninstrument_stops_all_reports(url: str, collected: Collected) -> None:
    with steadlock.connect(url, metrics=True) as client:
        instrumentation = collected.instrument(client)
        lease = client.lock("stock:1").try_acquire()
        assert lease is not None
        instrumentation.uninstrument()
        assert "steadlock.outcome" not in attributes(collected.hold())
        assert collected.numbers("steadlock.acquisitions") == {}
        lease.release()
        with client.lock("stock:2"):
            pass
        instrumentation.uninstrument()
        assert (len(collected.waits()), len(collected.holds())) == (1, 1)
        collected.instrument(client)
        with client.lock("stock:3"):
            pass
        assert (len(collected.waits()), len(collected.holds())) == (2, 2)
        assert sum(collected.numbers("steadlock.acquisitions").values()) == 3


def test_a_client_is_instrumented_once_and_has_metrics(client: steadlock.Client, collected: Collected) -> None:
    with pytest.raises(steadlock.InvalidArgumentError, match="instrumented already"):
        collected.instrument(client)
    with steadlock.connect("memory://") as without, pytest.raises(steadlock.InvalidArgumentError, match="metrics"):
        collected.instrument(without)
    with pytest.raises(TypeError, match="expected a client, not a str"):
        instrument("redis://localhost")  # type: ignore[arg-type]


class Broken:
    """A tracer and a span whose every method raises."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        def broken(*args: object, **kwargs: object) -> None:
            raise RuntimeError(f"{name} is broken")

        return broken


class WithBrokenSpans(Broken):
    def start_span(self, *args: object, **kwargs: object) -> Broken:
        return Broken()


@pytest.mark.parametrize("tracer", [Broken(), WithBrokenSpans()])
def test_telemetry_errors_do_not_affect_locks(
    url: str, collected: Collected, tracer: Broken, caplog: pytest.LogCaptureFixture
) -> None:
    with steadlock.connect(url, metrics=True) as client:
        collected.instrument(client)
        measuring: Any = client._connection.telemetry
        measuring.tracer = tracer
        measuring.instruments.wait = measuring.instruments.hold = Broken()
        with client.lock("stock:1") as lease:
            assert lease.is_valid()
        with pytest.raises(steadlock.InvalidArgumentError):
            client.lock("", wait=1).acquire()
    messages = [record.getMessage() for record in caplog.records if "OpenTelemetry" in record.getMessage()]
    assert messages == ["OpenTelemetry raised RuntimeError: some spans and metrics are missing; locks still work"]


def test_everything_else_works_without_opentelemetry() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_THE_API], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
