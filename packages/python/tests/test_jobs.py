"""Tests of jobs, whose runs are granted or skipped, with threads and with tasks."""

from __future__ import annotations

import asyncio
import gc
from datetime import UTC, datetime, timedelta

import pytest
from servers import Store, eventually

import steadlock
from steadlock import aio

SOON = 20
LONG = 3_600


def skipped(job: steadlock.Job) -> steadlock.SkippedError:
    """Returns the error of a request that is skipped."""
    with pytest.raises(steadlock.SkippedError) as raised:
        job.start()
    return raised.value


async def askipped(job: aio.Job) -> steadlock.SkippedError:
    with pytest.raises(steadlock.SkippedError) as raised:
        await job.start()
    return raised.value


def test_at_most_one_run_is_under_way_and_others_learn_of_it(client: steadlock.Client) -> None:
    with client.once("report") as run:
        assert run.is_valid()
        assert client.once("report").lease is run
        error = skipped(client.once("report"))
        assert (error.reason, error.took, error.lock_name, error.retryable) == ("running", None, "report", True)
        assert error.since is not None
        assert abs(error.since - datetime.now(UTC)) < timedelta(hours=1)
        assert error.holder is not None
        assert error.holder.client is not None
        assert error.holder.remaining is not None
        assert "report" in str(error)
    with client.once("report") as later:
        assert run.token is not None
        assert later.token is not None
        assert later.token > run.token


def test_at_least_keeps_others_out_after_a_short_run(client: steadlock.Client) -> None:
    job = client.once("report", at_least=LONG)
    with job:
        pass
    error = skipped(job)
    assert error.reason == "done"
    assert error.took is not None
    assert error.took < SOON
    assert error.holder is not None
    assert error.holder.remaining is not None
    assert LONG - SOON < error.holder.remaining <= LONG
    assert client.force_release(job)
    job.start().succeed(at_least=0)
    job.start().fail()


def test_a_key_that_is_done_is_not_run_again(client: steadlock.Client) -> None:
    monday = client.once("report", key="monday", keep=timedelta(days=2))
    with monday:
        pass
    assert skipped(monday).reason == "done"
    with client.once("report", key="tuesday"), client.once("other", key="monday"):
        pass


def test_a_failed_run_is_free_at_once_unless_it_is_kept(client: steadlock.Client) -> None:
    job = client.once("report", at_least=LONG, key="monday")
    with pytest.raises(ZeroDivisionError), job:
        raise ZeroDivisionError
    job.start().fail()
    kept = client.once("report", key="monday", on_failure="keep")
    with pytest.raises(KeyboardInterrupt), kept:
        raise KeyboardInterrupt
    assert skipped(kept).reason == "done"


def test_a_run_that_the_program_drops_has_failed(client: steadlock.Client) -> None:
    job = client.once("report", at_least=LONG)
    run: steadlock.Run | None = job.start()
    assert run is not None
    run._abandon()
    run = None
    gc.collect()
    job.start().succeed()
    last = job.last_run()
    assert last is not None
    assert last.ended is not None
    assert last.ended.outcome == "succeeded"


def test_the_history_has_the_last_runs(client: steadlock.Client) -> None:
    job = client.once("report")
    assert job.last_run() is None
    with job:
        running = job.last_run()
        assert running is not None
        assert (running.state, running.ended, running.succeeded) == ("running", None, None)
        assert running.client is not None
    ended = job.last_run()
    assert ended is not None
    assert ended.state == "ended"
    assert ended.ended is not None
    assert ended.ended.outcome == "succeeded"
    assert ended.succeeded == ended.ended.at
    assert ended.started is not None
    assert ended.started <= ended.ended.at
    with pytest.raises(ZeroDivisionError), job:
        raise ZeroDivisionError
    failed = job.last_run()
    assert failed is not None
    assert failed.ended is not None
    assert (failed.ended.outcome, failed.succeeded) == ("failed", ended.succeeded)


def test_a_decorated_function_runs_once(client: steadlock.Client) -> None:
    ran = []

    @client.once("report:{day}", key="{day}:{part}")
    def report(day: str, part: int = 1) -> str:
        ran.append((day, part))
        if part == 13:
            raise ZeroDivisionError
        return day

    assert report.__name__ == "report"
    assert report("monday") == "monday"
    assert report("monday") is None
    assert report("monday", 2) == report("monday", 3) == "monday"
    assert report("tuesday") == "tuesday"
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            report("monday", 13)
    assert ran == [("monday", 1), ("monday", 2), ("monday", 3), ("tuesday", 1), ("monday", 13), ("monday", 13)]


def test_a_decorated_function_can_raise_the_error_of_another_job(client: steadlock.Client) -> None:
    other = client.once("other", at_least=LONG)
    other.start().succeed()

    @client.once("report")
    def report() -> None:
        other.start()

    with pytest.raises(steadlock.SkippedError, match="other"):
        report()


def test_only_plain_functions_are_decorated(client: steadlock.Client) -> None:
    async def coroutine() -> None: ...

    def generator() -> object:
        yield 1

    with pytest.raises(TypeError, match=r"steadlock\.aio"):
        client.once("report")(coroutine)
    with pytest.raises(TypeError, match="once cannot guard a generator"):
        client.once("report")(generator)
    with pytest.raises(steadlock.InvalidArgumentError, match=r"once: .*nobody"):
        client.once("report:{nobody}")(lambda: None)


@pytest.mark.parametrize(
    "options",
    [
        {"at_least": 86_401},
        {"at_least": -1},
        {"key": ""},
        {"key": "k" * 513},
        {"key": "a\0b"},
        {"key": "k", "keep": 0},
        {"key": "k", "keep": timedelta(days=31)},
        {"on_failure": "later"},
        {"lease": 0.05},
    ],
)
def test_what_is_out_of_range_is_refused_and_nothing_is_written(
    server_client: tuple[steadlock.Client, Store], options: dict[str, object]
) -> None:
    client, store = server_client
    with pytest.raises(steadlock.InvalidArgumentError):
        client.once("report", **options).start()  # type: ignore[arg-type]
    assert store.keys() == []


@pytest.fixture
def server_client(server: object, store: Store) -> object:
    with steadlock.connect(server.url) as client:  # type: ignore[attr-defined]
        yield client, store


def test_a_value_of_a_wrong_type_is_refused_at_once(client: steadlock.Client) -> None:
    for options in ({"key": 7}, {"on_failure": 7}, {"at_least": "1 h"}, {"renew": 1}):
        with pytest.raises(TypeError):
            client.once("report", **options)


def test_a_job_is_no_member_of_a_composite_lock(client: steadlock.Client) -> None:
    composite = client.multi_lock([client.once("report"), client.lock("door")])  # type: ignore[list-item]
    with pytest.raises(steadlock.InvalidArgumentError):
        composite.acquire()


def test_a_lost_run_is_reported(server_client: tuple[steadlock.Client, Store]) -> None:
    client, store = server_client
    job = client.once("report", lease=0.5)

    def lose() -> None:
        with job as run:
            assert client.force_release(job)
            assert run.lost.wait(SOON)

    with pytest.raises(steadlock.LockLostError):
        lose()
    job.start().succeed()
    assert all(store.pttl(key) > 0 for key in store.scan_iter())


async def test_tasks_have_jobs_too(aclient: aio.Client) -> None:
    job = aclient.once("report", at_least=LONG)
    async with job as run:
        assert (await askipped(job)).reason == "running"
        assert job.lease is run
        await run.succeed(at_least=0)
    async with job:
        pass
    assert (await askipped(job)).reason == "done"
    last = await job.last_run()
    assert last is not None
    assert last.ended is not None
    assert last.ended.outcome == "succeeded"


async def test_a_run_fails_if_its_task_is_cancelled(aclient: aio.Client) -> None:
    job, begun = aclient.once("report", at_least=LONG), asyncio.Event()

    @job
    async def work() -> None:
        begun.set()
        await asyncio.sleep(SOON)

    task = asyncio.create_task(work())
    await asyncio.wait_for(begun.wait(), SOON)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    last = await job.last_run()
    assert last is not None
    assert last.ended is not None
    assert last.ended.outcome == "failed"


async def test_a_decorated_coroutine_function_runs_once(aclient: aio.Client) -> None:
    @aclient.once("report:{day}", key="{day}")
    async def report(day: str) -> str:
        return day

    assert await report("monday") == "monday"
    assert await report("monday") is None
    assert await report("tuesday") == "tuesday"


async def test_a_request_that_is_cancelled_leaves_no_run(aclient: aio.Client) -> None:
    job = aclient.once("report", key="monday", on_failure="keep")
    for _ in range(20):
        task = asyncio.create_task(job.start())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    async with asyncio.timeout(SOON):
        while True:
            try:
                run = await job.start()
            except steadlock.SkippedError as error:
                if error.reason != "running":
                    pytest.fail("a run that never began is done")
                await asyncio.sleep(0.01)
            else:
                await run.succeed()
                return


def test_a_run_whose_end_is_refused_has_failed(client: steadlock.Client) -> None:
    job = client.once("report", on_failure="keep")
    with job as run, pytest.raises(steadlock.InvalidArgumentError):
        run.succeed(at_least=90_000)
    eventually(SOON, lambda: (last := job.last_run()) is not None and last.ended is not None)
    job.start().succeed()


async def test_a_run_of_a_task_whose_end_is_refused_has_failed(aclient: aio.Client) -> None:
    job = aclient.once("report")
    async with job as run:
        with pytest.raises(steadlock.InvalidArgumentError):
            await run.succeed(at_least=90_000)
    async with asyncio.timeout(SOON):
        while True:
            last = await job.last_run()
            if last is not None and last.ended is not None:
                break
    assert last.ended.outcome == "failed"
    await (await job.start()).succeed()
