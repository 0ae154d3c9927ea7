"""Runs the scenarios of ci/behaviour, with their steps in threads or in asyncio tasks.

A scenario runs in a thread of its own. Its tasks, which own the locks, are `Actor`s. An actor runs the work that it
gets, one piece after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import queue
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeAlias

import pytest

import steadlock
from steadlock import _native, aio

Step: TypeAlias = dict[str, Any]
Work: TypeAlias = Callable[[], Any]
"""Work for an actor. It returns its result, or an awaitable of the result."""

TIMEOUT = 10
"""The seconds after which a step counts as hanging."""


def scenarios() -> list[tuple[dict[str, Any], str]]:
    """Returns each scenario with each kind for which it is valid."""
    file = Path(__file__).parents[3] / "ci" / "behaviour" / "scenarios.json"
    suite = json.loads(file.read_text())
    pairs = [(scenario, kind) for scenario in suite["scenarios"] for kind in scenario["kinds"]]
    assert {kind for _, kind in pairs} == {*suite["kinds"]}
    return pairs


def one_of_each_kind(servers: int) -> list[tuple[dict[str, Any], str]]:
    """Returns the first scenario of each kind for which there are enough servers."""
    first = {kind: (scenario, kind) for scenario, kind in reversed(scenarios())}
    return [played for kind, played in first.items() if kind != "redlock" or servers >= 3]


def run_in_threads(urls: list[str], scenario: dict[str, Any], kind: str) -> None:
    """Runs a scenario whose tasks are threads.

    The main thread runs the task that the scenario cancels, because Ctrl-C interrupts only the main thread.
    """
    main_thread = ThreadActor()
    done: Future[None] = Future()

    def play() -> None:
        try:
            Run(Threads(main_thread), urls, scenario, kind).run()
            done.set_result(None)
        except BaseException as error:
            done.set_exception(error)
        finally:
            main_thread.stop()

    threading.Thread(target=play).start()
    main_thread.run()
    done.result(TIMEOUT)


def run_in_tasks(urls: list[str], scenario: dict[str, Any], kind: str) -> None:
    """Runs a scenario whose tasks are asyncio tasks."""

    async def run() -> None:
        api = Tasks(asyncio.get_running_loop())
        await asyncio.to_thread(Run(api, urls, scenario, kind).run)

    asyncio.run(run())


class Actor(Protocol):
    """A task of a scenario."""

    def submit(self, work: Work) -> Future[Any]: ...
    def cancel(self) -> None:
        """Cancels the current work."""
        ...

    def stop(self) -> None: ...
    def end(self) -> None:
        """Stops the actor, and waits for the end of its thread or task."""
        ...


class Api(Protocol):
    """The API under test: that for threads, or that for asyncio."""

    cancelled: type[BaseException]

    @property
    def library(self) -> ModuleType:
        """The module with `connect`."""
        ...

    def actor(self, is_cancelled: bool) -> Actor: ...
    def acquire(self, lock: Any) -> Any:
        """Acquires a lock, and returns the lease."""
        ...

    def signalling(self, made: threading.Event, work: Work) -> Any:
        """Runs `work`, whose call waits for a lock, and sets `made` once the engine has the request."""
        ...

    def lost(self, lease: Any, seconds: float) -> Any:
        """Waits until the lease is lost."""
        ...


class Run:
    """One run of a scenario with one kind of lock."""

    def __init__(self, api: Api, urls: list[str], scenario: dict[str, Any], kind: str) -> None:
        self._api = api
        self._urls = urls
        self._scenario = scenario
        self._kind = kind
        self._name = f"behaviour:{uuid.uuid4()}"
        steps: list[Step] = scenario["steps"]
        calls = [step["call"] for step in steps if step["do"] == "cancel"]
        self._cancelled = {task_of(step) for step in steps if step["do"] == "start" and step["as"] in calls}
        self._actors: dict[tuple[int, str], Actor] = {}
        self._locks: dict[tuple[int, str], Any] = {}
        self._leases: dict[str, Any] = {}
        self._calls: dict[str, Future[Any]] = {}
        self._owners: dict[str, Actor] = {}

    def run(self) -> None:
        # The clients need an actor of their own, because another actor can hang.
        keeper = self._api.actor(is_cancelled=False)
        self._clients: list[Any] = []
        try:
            for _ in range(2):
                self._clients.append(keeper.submit(self._connect).result(TIMEOUT))
            for number, step in enumerate(self._scenario["steps"]):
                try:
                    getattr(self, f"_do_{step['do']}")(step)
                except BaseException as error:
                    error.add_note(f"in step {number}: {json.dumps(step)}")
                    raise
        finally:
            for client in self._clients:
                keeper.submit(client.close).result(TIMEOUT)
            for actor in (keeper, *self._actors.values()):
                actor.stop()

    def _connect(self) -> Any:
        lease = seconds(self._scenario.get("lease_ms"))
        authority = os.environ.get("STEADLOCK_BEHAVIOUR_CA")
        if self._kind == "redlock":
            return self._api.library.redlock(self._urls, lease=lease, tls_ca_file=authority)
        return self._api.library.connect(self._urls[0], lease=lease, tls_ca_file=authority)

    def _do_acquire(self, step: Step) -> None:
        self._record_grant(step, self._actor(step), self._acquisition(step))

    def _do_try(self, step: Step) -> None:
        lease = self._record_grant(step, self._actor(step), self._attempt(step))
        if "error" not in step:
            assert (lease is None) == (step.get("is") == "refused")

    def _do_race(self, step: Step) -> None:
        racers = [{**step, "client": number % 2, "task": f"racer {number}"} for number in range(step["tasks"])]
        attempts = [(self._actor(racer), self._attempt(racer)) for racer in racers]
        calls = [actor.submit(trying) for actor, trying in attempts]
        leases = [lease for lease in (call.result(TIMEOUT) for call in calls) if lease is not None]
        assert len(leases) == step["is"]
        self._leases |= {f"{step['as']}{number}": lease for number, lease in enumerate(leases, 1)}

    def _do_reenter(self, step: Step) -> None:
        self._record_grant(step, self._owners[step["within"]], self._acquisition(step))

    def _do_start(self, step: Step) -> None:
        made = threading.Event()
        actor, acquiring = self._actor(step), self._acquisition(step)
        self._calls[step["as"]] = actor.submit(lambda: self._api.signalling(made, acquiring))
        self._owners[step["as"]] = actor
        assert made.wait(TIMEOUT)

    def _do_await(self, step: Step) -> None:
        lease = outcome(self._calls[step["call"]], step, step.get("within_ms", 5000) / 1000)
        self._leases[step["call"]] = lease

    def _do_cancel(self, step: Step) -> None:
        self._owners[step["call"]].cancel()
        with pytest.raises(self._api.cancelled):
            self._calls[step["call"]].result(TIMEOUT)

    def _do_release(self, step: Step) -> None:
        assert self._call(step, self._lease(step).release) in as_list(step.get("is", "released"))

    def _do_leave(self, step: Step) -> None:
        left = self._actor(step).submit(self._lock(step).release)
        if "error" not in step:
            assert left.result(TIMEOUT) == "released"
            return
        error = failure(left, step, TIMEOUT)
        if "is" in step:
            assert isinstance(error, steadlock.LockLostError)
            assert error.reason in as_list(step["is"])

    def _do_extend(self, step: Step) -> None:
        self._call(step, lambda: self._lease(step).extend(seconds(step["by_ms"])))

    def _do_valid(self, step: Step) -> None:
        assert self._lease(step).is_valid() is step["is"]

    def _do_held(self, step: Step) -> None:
        assert self._call(step, self._plain_lock(step).owned) is step["is"]

    def _do_remaining(self, step: Step) -> None:
        assert step["above"] <= self._lease(step).remaining() * 1000 <= step["below"]

    def _do_kept(self, step: Step) -> None:
        lock = self._plain_lock(step)
        end = time.monotonic() + step["ms"] / 1000
        while time.monotonic() < end:
            assert self._lease(step).is_valid()
            assert self._call(step, lock.holder).remaining * 1000 <= step["below"]
            time.sleep(0.02)

    def _do_token(self, step: Step) -> None:
        token = self._lease(step).token
        if step.get("is") == "none":
            assert token is None
        else:
            assert token > (self._leases[step["above"]].token if "above" in step else 0)

    def _do_locked(self, step: Step) -> None:
        end = time.monotonic() + step.get("within_ms", 0) / 1000
        while self._is_locked(step) is not step["is"]:
            assert time.monotonic() < end
            time.sleep(0.01)

    def _do_available(self, step: Step) -> None:
        assert self._call(step, self._lock(step).available) == step["is"]

    def _do_force(self, step: Step) -> None:
        assert self._call(step, lambda: self._client(step).force_release(self._lock(step))) is step["is"]

    def _do_set_limit(self, step: Step) -> None:
        client, name = self._client(step), self._name
        was_held = self._call(step, lambda: client.set_limit(name, step["limit"]))
        assert "error" in step or was_held is step["is"]

    def _do_lost(self, step: Step) -> None:
        lease = self._lease(step)
        assert self._call(step, lambda: self._api.lost(lease, step.get("within_ms", 5000) / 1000))
        assert lease.lost_reason in as_list(step["is"])

    def _do_pause(self, step: Step) -> None:
        time.sleep(step["ms"] / 1000)

    def _do_end(self, step: Step) -> None:
        self._actors.pop(task_of(step)).end()

    def _do_close(self, step: Step) -> None:
        self._call(step, self._client(step).close)

    def _attempt(self, step: Step) -> Work:
        lock = self._lock(step)
        permits = [step["permits"]] if "permits" in step else []
        return lambda: lock.try_acquire(*permits, wait=seconds(step.get("wait_ms", 0)))

    def _acquisition(self, step: Step) -> Work:
        lock = self._lock(step)
        if isinstance(lock, steadlock.Semaphore | aio.Semaphore):
            return lambda: lock.acquire(step.get("permits", 1))
        return lambda: self._api.acquire(lock)

    def _is_locked(self, step: Step) -> bool:
        lock = self._lock(step)
        if isinstance(lock, steadlock.Semaphore | aio.Semaphore):
            return bool(self._call(step, lock.available) < lock.limit)
        return bool(self._call(step, lock.locked))

    def _record_grant(self, step: Step, actor: Actor, acquiring: Work) -> Any:
        lease = outcome(actor.submit(acquiring), step, TIMEOUT)
        if lease is not None:
            self._leases[step["as"]] = lease
            self._owners[step["as"]] = actor
        return lease

    def _call(self, step: Step, work: Work) -> Any:
        return outcome(self._actor(step).submit(work), step, TIMEOUT)

    def _actor(self, step: Step) -> Actor:
        task = task_of(step)
        if task not in self._actors:
            self._actors[task] = self._api.actor(task in self._cancelled)
        return self._actors[task]

    def _lease(self, step: Step) -> Any:
        return self._leases[step["lease"]]

    def _client(self, step: Step) -> Any:
        return self._clients[step.get("client", 0)]

    def _plain_lock(self, step: Step) -> Any:
        """Returns the lock of the step; for a semaphore, one permit as a lock."""
        lock = self._lock(step)
        return lock.permits(1) if isinstance(lock, steadlock.Semaphore | aio.Semaphore) else lock

    def _lock(self, step: Step) -> Any:
        """Returns the lock object that the step names, or a new one if it names none."""
        if "lock" not in step:
            return self._make_lock(step)
        key = (step.get("client", 0), step["lock"])
        if key not in self._locks:
            self._locks[key] = self._make_lock(step)
        return self._locks[key]

    def _make_lock(self, step: Step) -> Any:
        client, name = self._client(step), self._name
        options: dict[str, Any] = {
            "wait": seconds(step.get("wait_ms")),
            "lease": seconds(step.get("lease_ms")),
            "renew": step.get("renew", False),
            "max_hold": seconds(step.get("max_hold_ms")),
        }
        token = step.get("token", True)
        match step.get("kind", self._kind):
            case "lock" | "mutex" | "fair_lock" as kind:
                return getattr(client, kind)(name, **options, fencing=token)
            case "redlock":
                return client.lock(name, **options, fencing=token)
            case "read_lock":
                return client.read_write_lock(name, **options, fencing=token).read
            case "write_lock":
                return client.read_write_lock(name, **options, fencing=token).write
            case "semaphore":
                limit = step.get("limit", self._scenario.get("limit", 1))
                return client.semaphore(name, limit, **options)
            case "multi":
                return client.multi_lock([client.lock(f"{name}:a"), client.mutex(f"{name}:b")], **options)
            case "member":
                return client.lock(f"{name}:a", **options)
            case unknown:
                pytest.fail(f"no lock of the kind {unknown}")


class Threads:
    """The API for threads: tasks are threads."""

    library = steadlock
    cancelled: type[BaseException] = KeyboardInterrupt

    def __init__(self, main_thread: ThreadActor) -> None:
        self._main_thread = main_thread

    def actor(self, is_cancelled: bool) -> ThreadActor:
        if is_cancelled:
            return self._main_thread
        actor = ThreadActor()
        actor.start()
        return actor

    def acquire(self, lock: steadlock.Lock) -> steadlock.Lease | None:
        if not lock.acquire():
            raise steadlock.LockTimeoutError("acquire() returned false")
        return lock.lease

    def signalling(self, made: threading.Event, work: Work) -> Any:
        def see(frame: object, event: str, called: Any) -> None:
            # The native call does not release the GIL before the engine has the request.
            if event == "c_call" and isinstance(getattr(called, "__self__", None), _native.Client):
                made.set()

        sys.setprofile(see)
        try:
            return work()
        finally:
            sys.setprofile(None)

    def lost(self, lease: steadlock.Lease, seconds: float) -> bool:
        return lease.lost.wait(seconds)


class ThreadActor:
    """An actor that is a thread."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Work, Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self.run)

    def start(self) -> None:
        self._thread.start()

    def run(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, future = job
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)

    def submit(self, work: Work) -> Future[Any]:
        future: Future[Any] = Future()
        self._jobs.put((work, future))
        return future

    def cancel(self) -> None:
        ident = threading.main_thread().ident
        assert ident is not None
        signal.pthread_kill(ident, signal.SIGINT)

    def stop(self) -> None:
        self._jobs.put(None)

    def end(self) -> None:
        self.stop()
        self._thread.join(TIMEOUT)
        assert not self._thread.is_alive()


class Tasks:
    """The API for asyncio: tasks are asyncio tasks."""

    library = aio
    cancelled: type[BaseException] = asyncio.CancelledError

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def actor(self, is_cancelled: bool) -> TaskActor:
        return TaskActor(self._loop)

    async def acquire(self, lock: aio.Lock) -> aio.Lease | None:
        if not await lock.acquire():
            raise steadlock.LockTimeoutError("acquire() returned false")
        return lock.lease

    def signalling(self, made: threading.Event, work: Work) -> Any:
        # The loop runs nothing else before the task waits.
        made.set()
        return work()

    async def lost(self, lease: aio.Lease, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(lease.lost.wait(), seconds)
        return False


class TaskActor:
    """An actor that is an asyncio task."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._jobs: asyncio.Queue[tuple[Work, Future[Any]] | None] = asyncio.Queue()
        self._task = asyncio.run_coroutine_threadsafe(self._start(), loop).result(TIMEOUT)

    async def _start(self) -> asyncio.Task[None]:
        return asyncio.create_task(self._run())

    async def _run(self) -> None:
        while (job := await self._jobs.get()) is not None:
            work, future = job
            try:
                result = work()
                future.set_result(await result if inspect.isawaitable(result) else result)
            except asyncio.CancelledError as error:
                future.set_exception(error)
                raise
            except Exception as error:
                future.set_exception(error)

    def submit(self, work: Work) -> Future[Any]:
        future: Future[Any] = Future()
        self._loop.call_soon_threadsafe(self._jobs.put_nowait, (work, future))
        return future

    def cancel(self) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._jobs.put_nowait, None)

    def end(self) -> None:
        self.stop()
        asyncio.run_coroutine_threadsafe(asyncio.wait([self._task]), self._loop).result(TIMEOUT)


def outcome(future: Future[Any], step: Step, timeout: float) -> Any:
    """Returns the result of a call. If the step names an error, checks that the call raised it."""
    if "error" not in step:
        return future.result(timeout)
    failure(future, step, timeout)
    return None


def failure(future: Future[Any], step: Step, timeout: float) -> steadlock.SteadlockError:
    """Returns the error of a call, which must be the one that the step names."""
    with pytest.raises(steadlock.SteadlockError) as caught:
        future.result(timeout)
    assert type(caught.value).__name__ == f"{step['error']}Error"
    return caught.value


def task_of(step: Step) -> tuple[int, str]:
    """Returns the task that runs a step."""
    return step.get("client", 0), step.get("task", "main")


def seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def as_list(expected: str | list[str]) -> list[str]:
    return [expected] if isinstance(expected, str) else expected
