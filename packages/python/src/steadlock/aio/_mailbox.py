"""The delivery of results from the engine's thread to an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import deque
from collections.abc import Callable
from itertools import starmap
from typing import Any, Generic, TypeVar

from steadlock import _log, _native
from steadlock._descriptor import CHECK_INTERVAL, Descriptor
from steadlock._outcomes import LostReason
from steadlock._reentrant_queue import first, remove_item
from steadlock._watchlist import Watched, Watchlist
from steadlock.errors import MisconfiguredError

L = TypeVar("L", bound=Watched)


class Mailbox(Generic[L]):
    """Futures for requests, completed in batches.

    The engine makes a file descriptor readable once for a batch, without the GIL; the loop then takes all queued
    results. A mailbox refers to no connection, so that the client can be garbage while a loop still refers to the
    mailbox.

    A finalizer or a signal handler can post a request during any of these methods, and an interrupt (an exception of a
    signal handler) can end them. Requests and results therefore stay in queues until they were passed on.
    """

    def __init__(self, native: _native.Client, watched: Watchlist[L]) -> None:
        self._native = native
        self._watched = watched
        self._descriptor = Descriptor(native)
        self._level = _log.Level(native)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next_check: asyncio.TimerHandle | None = None
        self._outgoing: deque[Request] = deque()
        # The callback at the end of this turn of the loop.
        self._turn: asyncio.Handle | None = None
        # The number of requests in this turn.
        self._posted = 0
        # Whether the last turn with requests had only one.
        self._submits_at_once = True
        self._requests: dict[int, Request] = {}
        # The events that were taken from the engine and were not passed on yet.
        self._batches: deque[tuple[list[_native.Completed], list[tuple[int, LostReason]], list[_native.Line]]] = deque()
        # The requests whose results have come and were not passed on yet.
        self._settled: list[_native.Settled[Request]] = []
        # Whether this process is a fork of the one that made the mailbox.
        self._is_inherited = False
        # Whether to leave the loop when no request is pending.
        self._is_leaving = False

    def post(self, operation: str, submit: Callable[..., int], *args: Any, must_submit: bool = True) -> Request:
        """Makes a request to the engine. The result comes in the request's future. A request with `must_submit` is
        submitted even if the loop ends before the next flush.

        If the last turn of the loop that had requests had only one, the first request of a turn is submitted at once.
        Otherwise all requests of a turn are submitted together, so that the engine's thread is woken once for them.
        """
        request = self.make(operation, submit, *args, must_submit=must_submit)
        self.send(request)
        return request

    def make(self, operation: str, submit: Callable[..., int], *args: Any, must_submit: bool = True) -> Request:
        """Makes a request for `send`. The caller can `abandon` it, even if an interrupt ends `send`."""
        loop = asyncio._get_running_loop()
        if loop is None:
            raise MisconfiguredError(
                f"steadlock.aio needs a running event loop of asyncio, and there is none here; {_advice()}",
                operation=operation,
            )
        if loop is not self._loop:
            self._attach(loop, operation)
        return Request(submit, args, loop.create_future(), must_submit)

    def send(self, request: Request) -> None:
        """Posts a request."""
        if self._turn is None:
            # The callback must be scheduled first: even if an interrupt comes after this, the request is submitted.
            # `Uninterrupted` repeats the callback if an interrupt ends it.
            self._turn = request.future.get_loop().call_soon(_native.Uninterrupted(self._end_turn))
        self._outgoing.append(request)
        self._posted += 1
        if self._posted == 1 and self._submits_at_once:
            self.flush()

    def can_post_here(self) -> bool:
        """Whether a request can be posted here: in a running loop, unless the client is in another running loop."""
        loop, home = asyncio._get_running_loop(), self._loop
        return loop is not None and (loop is home or home is None or not home.is_running())

    def flush(self) -> None:
        """Submits all posted requests now."""
        try:
            while (request := first(self._outgoing)) is not None:
                _native.submit(self._requests, request)
                remove_item(self._outgoing, request)
        except BaseException:
            request = first(self._outgoing)
            if request is not None and request.submit is None and request.number is None:
                # The submission of this request failed, and is not repeated.
                remove_item(self._outgoing, request)
            if self._outgoing and self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon(_native.Uninterrupted(self.flush))
            raise

    def _end_turn(self) -> None:
        """Called at the end of a turn of the loop. Submits the requests of the turn."""
        self._turn = None
        self._submits_at_once = self._posted == 1
        self._posted = 0
        self.flush()

    def abandon(self, request: Request) -> None:
        """Cancels a request whose caller does not wait any more. Releases a lock that was granted to it."""
        future = request.future
        request.submit = None
        # A closed loop cannot notify the future's callbacks.
        with contextlib.suppress(RuntimeError):
            future.cancel()
        if not future.cancelled():
            if future.exception() is None:
                self._release_unclaimed(future.result())
        elif request.number is not None and self._requests.pop(request.number, None) is not None:
            self._native.cancel(request.number)

    async def call(self, operation: str, submit: Callable[..., int], *args: Any) -> Any:
        """Makes a request, and returns its result. The request goes on if its caller is cancelled."""
        return await self.result(self.post(operation, submit, *args))

    async def ask(self, operation: str, submit: Callable[..., int], *args: Any) -> Any:
        """Makes a request, and returns its result. The request ends if its caller is cancelled."""
        request = self.make(operation, submit, *args, must_submit=False)
        try:
            self.send(request)
            return await request.future
        except BaseException:
            _native.uninterrupted(self.abandon, request)
            raise

    async def result(self, request: Request) -> Any:
        """Returns the result of a request, which goes on if the caller is cancelled."""
        try:
            return await request.future
        except BaseException:
            # The loop can end now, so the request must be submitted before the loop's next turn.
            self.flush()
            raise

    def connected(self) -> asyncio.Future[Any]:
        """Returns a future that is done when the client has connected, or connecting has failed."""
        return self.post("connect", lambda: _native.Client.CONNECT).future

    def detach_when_idle(self) -> None:
        """Leaves the loop as soon as all requests are answered."""
        self._is_leaving = True
        self.deliver()

    def detach(self) -> None:
        """Leaves the loop. Later results are not passed on."""
        loop, self._loop = self._loop, None
        if self._next_check is not None:
            self._next_check.cancel()
            self._next_check = None
        if loop is not None and not loop.is_closed():
            self._descriptor.unregister(loop.remove_reader)

    def detach_soon(self) -> None:
        """Leaves the loop, from any thread."""
        loop = self._loop
        if loop is not None and loop.is_running():
            loop.call_soon_threadsafe(self.detach)
        else:
            self.detach()

    def after_fork(self) -> None:
        """Called in the child of a fork, where the loop can go on. The mailbox must ignore the parent's events."""
        self._is_inherited = True
        self._loop = None
        if self._next_check is not None:
            self._next_check.cancel()

    def deliver(self) -> None:
        """Passes on the queued events."""
        if self._is_inherited:
            return
        try:
            # One atomic step, which no interrupt can end.
            self._batches.extend(starmap(self._native.drain, [()]))
            while (batch := first(self._batches)) is not None:
                completed, lost, lines = batch
                _native.settle(completed, self._requests, self._settled)
                self._settle_futures()
                _log.write(lines)
                self._watched.notify(lost, _notify)
                remove_item(self._batches, batch)
        except BaseException:
            # An interrupt has come. The ring makes the loop call this method again.
            self._native.ring()
            raise
        self._watched.catch_up()
        _log.catch_up()
        if self._is_leaving and not self._requests and not self._outgoing:
            self.detach()

    def _settle_futures(self) -> None:
        while (one := first(self._settled)) is not None:
            request, value, error = one
            future = None if request is None else request.future
            if future is None or future.cancelled():
                self._release_unclaimed(value)
            elif not future.done():
                if error is None:
                    future.set_result(value)
                else:
                    future.set_exception(error)
            remove_item(self._settled, one)

    def finish_ended_loop(self) -> None:
        """Completes the requests whose loop has ended, because nothing reads their futures any more. Does nothing while
        the loop runs.
        """
        if self._loop is not None and self._loop.is_running():
            return
        outgoing, self._outgoing = self._outgoing, deque()
        requests, self._requests = self._requests, {}
        settled, self._settled = self._settled, []
        self._posted = 0
        self._turn = None
        for request in outgoing:
            if request.must_submit:
                _native.submit({}, request)
        for number in requests:
            # Cancels a pending request: a lock that is granted to it is released, but a release goes on.
            self._native.cancel(number)
        for posted, value, _ in settled:
            if posted is None or not posted.future.done() or posted.future.cancelled():
                self._release_unclaimed(value)

    def _release_unclaimed(self, value: object) -> None:
        if isinstance(value, _native.Lease):
            self._native.return_grant(value.id)

    def _attach(self, loop: asyncio.AbstractEventLoop, operation: str) -> None:
        """Moves to the running loop. Raises `MisconfiguredError` while the former loop still runs."""
        before = self._loop
        if before is not None and before.is_running():
            raise MisconfiguredError(
                "this client belongs to another running event loop; connect one in each loop", operation=operation
            )
        self.detach()
        self.finish_ended_loop()
        self._add_reader(loop)
        self._level.follow()
        self._next_check = loop.call_later(CHECK_INTERVAL, _native.Uninterrupted(self._check_descriptor))
        # Set last: if an interrupt comes before this, the next request attaches again.
        self._loop = loop

    def _check_descriptor(self) -> None:
        """Follows the log's level, and makes the loop watch a new descriptor if the program has closed the old one."""
        loop = self._loop
        if loop is None:
            return
        if self._next_check is not None:
            self._next_check.cancel()
        self._next_check = loop.call_later(CHECK_INTERVAL, _native.Uninterrupted(self._check_descriptor))
        self._level.follow()
        if self._descriptor.is_current():
            return
        self._descriptor.unregister(loop.remove_reader)
        self._add_reader(loop)
        self.deliver()

    def _add_reader(self, loop: asyncio.AbstractEventLoop) -> None:
        # If the system has no descriptor left, results arrive at the next check.
        with contextlib.suppress(OSError):
            loop.add_reader(self._descriptor.refresh(), self.deliver)


def _notify(lease: Watched) -> None:
    lease._on_lost()


def _advice() -> str:
    if "trio" in sys.modules:
        return "with trio use steadlock.connect in worker threads: `await trio.to_thread.run_sync(...)`"
    return "await it in a coroutine that `asyncio.run` runs, or use steadlock.connect"


class Request:
    """A call to submit, and the future of its result."""

    __slots__ = ("args", "future", "must_submit", "number", "submit")

    def __init__(
        self, submit: Callable[..., int], args: tuple[Any, ...], future: asyncio.Future[Any], must_submit: bool
    ) -> None:
        self.submit: Callable[..., int] | None = submit
        self.args = args
        self.future = future
        self.must_submit = must_submit
        self.number: int | None = None
