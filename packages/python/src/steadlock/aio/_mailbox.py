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
from steadlock._descriptor import LOOK, Descriptor
from steadlock._endings import LostReason
from steadlock._handing_on import first, take_out
from steadlock._watchlist import Watched, Watchlist
from steadlock.errors import MisconfiguredError

L = TypeVar("L", bound=Watched)


class Mailbox(Generic[L]):
    """Futures for requests, completed in batches.

    The engine makes a file descriptor readable once for a batch, without the GIL; the loop then takes all queued
    results. A mailbox refers to no connection, so that a client can be garbage while a loop still refers to its
    mailbox.

    A finalizer or a signal handler can post a request during any of these methods, and an interrupt can end them.
    Requests and results therefore stay in queues until they were passed on.
    """

    def __init__(self, native: _native.Client, watched: Watchlist[L]) -> None:
        self._native = native
        self._watched = watched
        self._descriptor = Descriptor(native)
        self._level = _log.Level(native)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next_look: asyncio.TimerHandle | None = None
        self._outgoing: deque[Request] = deque()
        # The callback at the end of this turn of the loop, the number of requests in this turn, and whether turns have
        # one request each.
        self._turn: asyncio.Handle | None = None
        self._posted = 0
        self._one_by_one = True
        self._requests: dict[int, Request] = {}
        # The events that were taken from the engine, and the requests with their results.
        self._taken: deque[tuple[list[_native.Completed], list[tuple[int, LostReason]], list[_native.Line]]] = deque()
        self._settled: list[_native.Settled[Request]] = []
        # Whether this process is a fork of the one that made the mailbox.
        self._is_inherited = False
        # Whether to leave the loop when no request is pending.
        self._is_leaving = False

    def post(self, operation: str, submit: Callable[..., int], *args: Any, goes_on: bool = True) -> Request:
        """Makes a request to the engine. The result comes in the request's future. A request that `goes_on` is
        submitted even if the loop ends before the next flush.

        While turns have one request each, a request is submitted at once. Otherwise all requests of one turn of the
        loop are submitted together, so that the engine's thread is woken once for them.
        """
        request = self.make(operation, submit, *args, goes_on=goes_on)
        self.send(request)
        return request

    def make(self, operation: str, submit: Callable[..., int], *args: Any, goes_on: bool = True) -> Request:
        """Makes a request for `send`. The caller can `abandon` it, even if an interrupt ends `send`."""
        loop = asyncio._get_running_loop()
        if loop is None:
            raise MisconfiguredError(
                f"steadlock.aio needs a running event loop of asyncio, and there is none here; {_elsewhere()}",
                operation=operation,
            )
        if loop is not self._loop:
            self._attach(loop, operation)
        return Request(submit, args, loop.create_future(), goes_on)

    def send(self, request: Request) -> None:
        """Posts a request."""
        if self._turn is None:
            # The callback must be scheduled first: even if an interrupt comes after this, the request is submitted.
            # `Uninterrupted` repeats the callback if an interrupt ends it.
            self._turn = request.future.get_loop().call_soon(_native.Uninterrupted(self._end_turn))
        self._outgoing.append(request)
        self._posted += 1
        if self._posted == 1 and self._one_by_one:
            self.flush()

    def is_at_home(self) -> bool:
        """Whether a request can be posted here: inside a loop, unless the client belongs to another running one."""
        loop, home = asyncio._get_running_loop(), self._loop
        return loop is not None and (loop is home or home is None or not home.is_running())

    def flush(self) -> None:
        """Submits all posted requests now."""
        try:
            while (request := first(self._outgoing)) is not None:
                _native.submit(self._requests, request)
                take_out(self._outgoing, request)
        except BaseException:
            request = first(self._outgoing)
            if request is not None and request.submit is None and request.number is None:
                # The request cannot be submitted.
                take_out(self._outgoing, request)
            if self._outgoing and self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon(_native.Uninterrupted(self.flush))
            raise

    def _end_turn(self) -> None:
        """Called at the end of a turn of the loop. Submits its requests."""
        self._turn = None
        self._one_by_one = self._posted == 1
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
                self._give_back(future.result())
        elif request.number is not None and self._requests.pop(request.number, None) is not None:
            self._native.cancel(request.number)

    async def outcome(self, operation: str, submit: Callable[..., int], *args: Any) -> Any:
        """Makes a request, and returns its result. The request goes on if its caller is cancelled."""
        return await self.result(self.post(operation, submit, *args))

    async def result(self, request: Request) -> Any:
        """Returns the result of a request, which goes on if the caller is cancelled."""
        try:
            return await request.future
        except BaseException:
            # The loop can end now, so the request must be submitted before its next turn.
            self.flush()
            raise

    def connected(self) -> asyncio.Future[Any]:
        """Returns a future that is done when the first connection was made, or has failed."""
        return self.post("connect", lambda: _native.Client.CONNECT).future

    def leave(self) -> None:
        """Leaves the loop as soon as all requests are answered."""
        self._is_leaving = True
        self.deliver()

    def detach(self) -> None:
        """Leaves the loop. Later results are not passed on."""
        loop, self._loop = self._loop, None
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None
        if loop is not None and not loop.is_closed():
            self._descriptor.leave(loop.remove_reader)

    def detach_soon(self) -> None:
        """Leaves the loop, from any thread."""
        loop = self._loop
        if loop is not None and loop.is_running():
            loop.call_soon_threadsafe(self.detach)
        else:
            self.detach()

    def leave_to_parent(self) -> None:
        """Called in the child of a fork, where the loop can go on. It must ignore the events of the parent."""
        self._is_inherited = True
        self._loop = None
        if self._next_look is not None:
            self._next_look.cancel()

    def deliver(self) -> None:
        """Passes on the queued events."""
        if self._is_inherited:
            return
        try:
            # One atomic step, which no interrupt can end.
            self._taken.extend(starmap(self._native.drain, [()]))
            while (batch := first(self._taken)) is not None:
                completed, lost, lines = batch
                _native.settle(completed, self._requests, self._settled)
                self._answer()
                _log.write(lines)
                self._watched.tell(lost, _tell)
                take_out(self._taken, batch)
        except BaseException:
            # An interrupt has come. The ring makes the loop call this method again.
            self._native.ring()
            raise
        self._watched.catch_up()
        _log.catch_up()
        if self._is_leaving and not self._requests and not self._outgoing:
            self.detach()

    def _answer(self) -> None:
        while (one := first(self._settled)) is not None:
            request, value, error = one
            future = None if request is None else request.future
            if future is None or future.cancelled():
                self._give_back(value)
            elif not future.done():
                if error is None:
                    future.set_result(value)
                else:
                    future.set_exception(error)
            take_out(self._settled, one)

    def end_last_loop(self) -> None:
        """Completes the requests of a loop that has ended, whose futures nothing reads any more."""
        if self._loop is not None and self._loop.is_running():
            return
        outgoing, self._outgoing = self._outgoing, deque()
        requests, self._requests = self._requests, {}
        settled, self._settled = self._settled, []
        self._posted = 0
        self._turn = None
        for request in outgoing:
            if request.goes_on:
                _native.submit({}, request)
        for number in requests:
            # Cancels a pending request: a lock that is granted to it is released, but a release goes on.
            self._native.cancel(number)
        for posted, value, _ in settled:
            if posted is None or not posted.future.done() or posted.future.cancelled():
                self._give_back(value)

    def _give_back(self, value: object) -> None:
        if isinstance(value, _native.Lease):
            self._native.release_later(value.id)

    def _attach(self, loop: asyncio.AbstractEventLoop, operation: str) -> None:
        """Moves to the running loop, if the former loop is not in use any more."""
        before = self._loop
        if before is not None and before.is_running():
            raise MisconfiguredError(
                "this client belongs to another running event loop; connect one in each loop", operation=operation
            )
        self.detach()
        self.end_last_loop()
        self._watch(loop)
        self._level.follow()
        self._next_look = loop.call_later(LOOK, _native.Uninterrupted(self._look))
        # Set last: if an interrupt comes before this, the next request attaches again.
        self._loop = loop

    def _look(self) -> None:
        """Follows the log's level, and makes the loop watch a new descriptor if the program has closed the old one."""
        loop = self._loop
        if loop is None:
            return
        if self._next_look is not None:
            self._next_look.cancel()
        self._next_look = loop.call_later(LOOK, _native.Uninterrupted(self._look))
        self._level.follow()
        if self._descriptor.is_there():
            return
        self._descriptor.leave(loop.remove_reader)
        self._watch(loop)
        self.deliver()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        # If the system has no descriptor left, results arrive at the next check.
        with contextlib.suppress(OSError):
            loop.add_reader(self._descriptor.look(), self.deliver)


def _tell(lease: Watched) -> None:
    lease._on_lost()


def _elsewhere() -> str:
    if "trio" in sys.modules:
        return "with trio use steadlock.connect in worker threads: `await trio.to_thread.run_sync(...)`"
    return "await it in a coroutine that `asyncio.run` runs, or use steadlock.connect"


class Request:
    """A call to submit, and the waiter for its result."""

    __slots__ = ("args", "future", "goes_on", "number", "submit")

    def __init__(
        self, submit: Callable[..., int], args: tuple[Any, ...], future: asyncio.Future[Any], goes_on: bool
    ) -> None:
        self.submit: Callable[..., int] | None = submit
        self.args = args
        self.future = future
        self.goes_on = goes_on
        self.number: int | None = None
