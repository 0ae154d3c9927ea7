"""How results come from the engine's thread to an event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from steadlock import _log, _native
from steadlock._descriptor import LOOK, Descriptor
from steadlock._watchlist import Watched, Watchlist
from steadlock.errors import MisconfiguredError

L = TypeVar("L", bound=Watched)


class Mailbox(Generic[L]):
    """Futures for requests, completed in batches.

    The engine makes a file descriptor readable once for a batch, without the GIL; the
    loop then takes all results that have come. It refers to no connection, so that a
    client can be collected while its mailbox is known to a loop.
    """

    def __init__(self, native: _native.Client, watched: Watchlist[L]) -> None:
        self._native = native
        self._watched = watched
        self._descriptor = Descriptor(native)
        self._level = _log.Level(native)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next_look: asyncio.TimerHandle | None = None
        self._outgoing: list[Request] = []
        # How many were posted in this turn of the loop, and whether tasks come one at a time.
        self._posted = 0
        self._one_by_one = True
        self._futures: dict[int, asyncio.Future[Any]] = {}
        # Whether the loop is left once nobody waits for anything.
        self._is_leaving = False

    def post(self, operation: str, submit: Callable[..., int], *args: Any, goes_on: bool = True) -> Request:
        """Asks the engine for something; its result comes in the request's future. A request
        that `goes_on` is made even if the loop ends before this turn of it.

        While tasks come one at a time, each is served at once. Else what all tasks post
        in one turn of the loop is submitted together, so that the engine's thread is
        woken once for it.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._attach(loop, operation)
        request = Request(submit, args, loop.create_future(), goes_on)
        self._outgoing.append(request)
        self._posted += 1
        if self._posted == 1:
            loop.call_soon(self._end_turn)
            if self._one_by_one:
                self.flush()
        return request

    def flush(self) -> None:
        """Submits what was posted, now."""
        outgoing, self._outgoing = self._outgoing, []
        futures = self._futures
        for request in outgoing:
            if request.submit is not None:
                request.number = number = request.submit(*request.args)
                futures[number] = request.future

    def _end_turn(self) -> None:
        """What was posted in one turn of the loop is complete."""
        self._one_by_one = self._posted == 1
        self._posted = 0
        self.flush()

    def abandon(self, request: Request) -> None:
        """Nobody waits for the request any more; a lock that it gets is released."""
        future = request.future
        if request.number is None:
            request.submit = None
        elif self._futures.pop(request.number, None) is not None:
            self._native.cancel(request.number)
        elif future.done() and not future.cancelled() and future.exception() is None:
            self._give_back(future.result())

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
        completed, lost, lines = self._native.drain()
        for request, value, error in completed:
            future = self._futures.pop(request, None)
            if future is None or future.done():
                self._give_back(value)
            elif error is None:
                future.set_result(value)
            else:
                future.set_exception(error)
        _log.write(lines)
        if lost:
            for lease in self._watched.take(lost):
                lease._on_lost()
        self._watched.catch_up()
        _log.catch_up()
        if self._is_leaving and not self._futures and not self._outgoing:
            self.detach()

    def end_last_loop(self) -> None:
        """Does what is left to do for a loop that runs no more: its futures are not looked at again."""
        if self._loop is not None and self._loop.is_running():
            return
        outgoing, self._outgoing = self._outgoing, []
        futures, self._futures = self._futures, {}
        self._posted = 0
        for request in outgoing:
            if request.goes_on and request.submit is not None:
                request.submit(*request.args)
        for number in futures:
            # A lock that it gets is given back; a release goes on.
            self._native.cancel(number)

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
        self._loop = loop
        self._level.follow()
        self._next_look = loop.call_later(LOOK, self._look)

    def _look(self) -> None:
        """Follows the log's level, and has the loop watch another descriptor if the program has closed the one
        before."""
        loop = self._loop
        if loop is None:
            return
        self._next_look = loop.call_later(LOOK, self._look)
        self._level.follow()
        if self._descriptor.is_there():
            return
        self._descriptor.leave(loop.remove_reader)
        # If there is none to be had, results come when the loop looks.
        with contextlib.suppress(OSError):
            loop.add_reader(self._descriptor.look(), self.deliver)
        self.deliver()


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
