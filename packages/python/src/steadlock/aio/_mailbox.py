"""How results come from the engine's thread to an event loop."""

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

    The engine makes a file descriptor readable once for a batch, without the GIL; the
    loop then takes all results that have come. It refers to no connection, so that a
    client can be collected while its mailbox is known to a loop.

    A finalizer or a signal handler may post in the midst of any of this, and an interrupt
    strike there: what goes out and what has come waits in queues until it was handed on.
    """

    def __init__(self, native: _native.Client, watched: Watchlist[L]) -> None:
        self._native = native
        self._watched = watched
        self._descriptor = Descriptor(native)
        self._level = _log.Level(native)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next_look: asyncio.TimerHandle | None = None
        self._outgoing: deque[Request] = deque()
        # The end of this turn of the loop, how many were posted in it, and whether tasks come one at a time.
        self._turn: asyncio.Handle | None = None
        self._posted = 0
        self._one_by_one = True
        self._requests: dict[int, Request] = {}
        # What was taken from the engine, and whose results those are.
        self._taken: deque[tuple[list[_native.Completed], list[tuple[int, LostReason]], list[_native.Line]]] = deque()
        self._settled: list[_native.Settled[Request]] = []
        # Whether the loop is left once nobody waits for anything.
        self._is_leaving = False

    def post(self, operation: str, submit: Callable[..., int], *args: Any, goes_on: bool = True) -> Request:
        """Asks the engine for something; its result comes in the request's future. A request
        that `goes_on` is made even if the loop ends before this turn of it.

        While tasks come one at a time, each is served at once. Else what all tasks post
        in one turn of the loop is submitted together, so that the engine's thread is
        woken once for it.
        """
        request = self.make(operation, submit, *args, goes_on=goes_on)
        self.send(request)
        return request

    def make(self, operation: str, submit: Callable[..., int], *args: Any, goes_on: bool = True) -> Request:
        """A request to `send`. Its caller can `abandon` it, also if an interrupt strikes in `send`."""
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
        """Posts it."""
        if self._turn is None:
            # First: whatever strikes after this, the request goes out. Again, if it strikes within.
            self._turn = request.future.get_loop().call_soon(_native.Uninterrupted(self._end_turn))
        self._outgoing.append(request)
        self._posted += 1
        if self._posted == 1 and self._one_by_one:
            self.flush()

    def is_at_home(self) -> bool:
        """Whether a request can be posted here: in a loop, unless the client belongs to another running one."""
        loop, home = asyncio._get_running_loop(), self._loop
        return loop is not None and (loop is home or home is None or not home.is_running())

    def flush(self) -> None:
        """Submits what was posted, now."""
        try:
            while (request := first(self._outgoing)) is not None:
                _native.submit(self._requests, request)
                take_out(self._outgoing, request)
        except BaseException:
            request = first(self._outgoing)
            if request is not None and request.submit is None and request.number is None:
                # It cannot be submitted.
                take_out(self._outgoing, request)
            if self._outgoing and self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon(_native.Uninterrupted(self.flush))
            raise

    def _end_turn(self) -> None:
        """What was posted in one turn of the loop is complete."""
        self._turn = None
        self._one_by_one = self._posted == 1
        self._posted = 0
        self.flush()

    def abandon(self, request: Request) -> None:
        """Nobody waits for the request any more; a lock that it gets is released."""
        future = request.future
        request.submit = None
        # In a loop that was closed nobody is told of it.
        with contextlib.suppress(RuntimeError):
            future.cancel()
        if not future.cancelled():
            if future.exception() is None:
                self._give_back(future.result())
        elif request.number is not None and self._requests.pop(request.number, None) is not None:
            self._native.cancel(request.number)

    async def outcome(self, operation: str, submit: Callable[..., int], *args: Any) -> Any:
        """What a request came to that goes on when its caller is cancelled."""
        return await self.result(self.post(operation, submit, *args))

    async def result(self, request: Request) -> Any:
        """What it came to. It goes on when the caller is cancelled."""
        try:
            return await request.future
        except BaseException:
            # The loop may end now: do not wait for its next turn.
            self.flush()
            raise

    def connected(self) -> asyncio.Future[Any]:
        """Done once the first connection was made, or failed."""
        return self.post("connect", lambda: _native.Client.CONNECT).future

    def leave(self) -> None:
        """Leaves the loop as soon as everything that was asked for is answered."""
        self._is_leaving = True
        self.deliver()

    def detach(self) -> None:
        """Leaves the loop. What comes later is not passed on."""
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

    def deliver(self) -> None:
        """Passes on what has come."""
        try:
            # One step, in which nothing strikes.
            self._taken.extend(starmap(self._native.drain, [()]))
            while (batch := first(self._taken)) is not None:
                completed, lost, lines = batch
                _native.settle(completed, self._requests, self._settled)
                self._answer()
                _log.write(lines)
                self._watched.tell(lost, _tell)
                take_out(self._taken, batch)
        except BaseException:
            # An interrupt; the loop comes here again.
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
        """Does what is left to do for a loop that runs no more: its futures are not looked at again."""
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
            # A lock that is granted to it is released; a release goes on.
            self._native.cancel(number)
        for posted, value, _ in settled:
            if posted is None or not posted.future.done() or posted.future.cancelled():
                self._give_back(value)

    def _give_back(self, value: object) -> None:
        if isinstance(value, _native.Lease):
            self._native.release_later(value.id)

    def _attach(self, loop: asyncio.AbstractEventLoop, operation: str) -> None:
        """Moves to the running loop, if the one before is not in use any more."""
        before = self._loop
        if before is not None and before.is_running():
            raise MisconfiguredError(
                "this client belongs to another running event loop; connect one in each loop", operation=operation
            )
        self.detach()
        self.end_last_loop()
        loop.add_reader(self._descriptor.look(), self.deliver)
        self._level.follow()
        self._next_look = loop.call_later(LOOK, _native.Uninterrupted(self._look))
        # Last: what is struck begins again.
        self._loop = loop

    def _look(self) -> None:
        """Follows the log's level, and has the loop watch another descriptor if the program has closed the one
        before."""
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
        # If there is none to be had, results come when the loop looks.
        with contextlib.suppress(OSError):
            loop.add_reader(self._descriptor.look(), self.deliver)
        self.deliver()


def _tell(lease: Watched) -> None:
    lease._on_lost()


def _elsewhere() -> str:
    if "trio" in sys.modules:
        return "with trio use steadlock.connect in worker threads: `await trio.to_thread.run_sync(...)`"
    return "await it in a coroutine that `asyncio.run` runs, or use steadlock.connect"


class Request:
    """Something to submit, and the waiter for its result."""

    __slots__ = ("args", "future", "goes_on", "number", "submit")

    def __init__(
        self, submit: Callable[..., int], args: tuple[Any, ...], future: asyncio.Future[Any], goes_on: bool
    ) -> None:
        self.submit: Callable[..., int] | None = submit
        self.args = args
        self.future = future
        self.goes_on = goes_on
        self.number: int | None = None
