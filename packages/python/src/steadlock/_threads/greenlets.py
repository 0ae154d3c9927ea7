"""How a greenlet of gevent waits for the engine while the others of its thread go on.

gevent runs the greenlets of a thread by turns; one of them, the hub, waits for all. So a
call that must wait leaves that to the hub. Nothing here imports gevent: where it runs, the
program has imported it, and whether it has patched the standard library does not matter.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from steadlock import _native
from steadlock._context import lock_of_threads
from steadlock._descriptor import LOOK, Descriptor

Hub: TypeAlias = Any
"""A `gevent.hub.Hub`."""

READABLE = 1
"""What a watcher of gevent's loop waits for."""


class Waits:
    """The requests of one client that greenlets wait for, in any number of threads.

    The client's file descriptor is readable while there are results. Each hub in which
    greenlets wait listens to it; the one that is first takes all results, and hands those of
    another hub to it.
    """

    def __init__(self, native: _native.Client, hear: Callable[[], None]) -> None:
        self._native = native
        # Takes what has come, in a hub.
        self._hear = hear
        # One of gevent would have the hub wait for a greenlet.
        self._mutex = lock_of_threads()
        self._requests: dict[int, _Request] = {}
        self._listening: dict[Hub, _Ear] = {}

    def wait(self, hub: Hub, into: list[Any], submit: Callable[..., int], *args: Any, owner: int | None = None) -> None:
        """Submits a request and appends its result to `into`, at once when it comes: what
        interrupts the caller after it cannot hide it. A refusal is raised.

        If the greenlet is killed or timed out, or its thread ends, the request is forgotten; a
        lock that it gets is released.
        """
        request = _Request(hub, into, owner)
        number = None
        self._listen(hub)
        try:
            with self._mutex:
                number = submit(*args)
                self._requests[number] = request
            request.waiter.get()
        finally:
            with self._mutex:
                is_known = number is not None and self._requests.pop(number, None) is not None
            if number is not None and is_known and not request.is_settled():
                self._native.cancel(number)
            self._listen_no_more(hub)
        if request.error is not None:
            raise request.error

    def answer(self, completed: list[_native.Completed]) -> None:
        """Hands the results on to the waiters, and takes each out of the list: an interrupt may
        strike anywhere, and the rest is handed on later."""
        while completed:
            number, value, error = completed[0]
            with self._mutex:
                request = self._requests.get(number)
                if request is not None:
                    request.settle(value, error)
            is_wanted = request is not None and request.wake()
            if not is_wanted and isinstance(value, _native.Lease):
                self._native.release_later(value.id)
            if request is not None and not is_wanted:
                self._listening.pop(request.hub, None)
            # In this order: what is in the list and has no request is given back.
            completed.pop(0)
            self._requests.pop(number, None)

    def owners_have_ended(self, numbers: Iterable[int]) -> None:
        """Forgets what the greenlets of an ended thread wait for: none of them goes on."""
        ended = set(numbers)
        for number, request in list(self._requests.items()):
            if request.owner in ended and self._requests.pop(number, None) is not None:
                self._listening.pop(request.hub, None)
                self._native.cancel(number)

    def stop_listening(self) -> None:
        for ear in list(self._listening.values()):
            ear.stop()

    def _listen(self, hub: Hub) -> None:
        ear = self._listening.get(hub)
        if ear is None:
            ear = self._listening[hub] = _Ear(hub, self._native, self._hear)
        ear.listen()
        ear.listeners += 1

    def _listen_no_more(self, hub: Hub) -> None:
        ear = self._listening.get(hub)
        if ear is None:
            return
        ear.listeners -= 1
        if ear.listeners == 0:
            # A watcher that goes on would keep the program from its end.
            del self._listening[hub]
            ear.close()


class _Ear:
    """How a hub gets results, and for how many of its greenlets.

    The program may close the descriptor that it listens to: so it looks now and then, and
    listens to another one.
    """

    __slots__ = ("_descriptor", "_hear", "_hub", "_timer", "_watcher", "listeners")

    def __init__(self, hub: Hub, native: _native.Client, hear: Callable[[], None]) -> None:
        self._hub = hub
        self._hear = hear
        self._descriptor = Descriptor(native)
        self._watcher: Any = None
        # The watcher keeps the program from its end.
        self._timer = hub.loop.timer(LOOK, LOOK, ref=False)
        self.listeners = 0

    def listen(self) -> None:
        run = self._hub.loop.run_callback
        if self._watcher is None:
            # If there is none to be had, results come when it looks.
            with contextlib.suppress(OSError):
                self._watcher = self._hub.loop.io(self._descriptor.look(), READABLE)
        # Not `_hear` itself: gevent stops a watcher whose callback raises, as Ctrl-C may make it.
        if self._watcher is not None and not self._watcher.active:
            self._watcher.start(run, self._hear)
        if not self._timer.active:
            self._timer.start(run, self._look)

    def stop(self) -> None:
        self._timer.stop()
        if self._watcher is not None:
            self._watcher.stop()

    def close(self) -> None:
        self.stop()
        self._timer.close()
        self._leave()

    def _look(self) -> None:
        if not self._timer.active:
            return
        if not self._descriptor.is_there():
            self._leave()
            self.listen()
        # It looks at the log's level, too.
        self._hear()

    def _leave(self) -> None:
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.stop()
            watcher.close()


def wait_in(hub: Hub, descriptor: Descriptor) -> None:
    """Waits in a hub until something has happened, or it is time to look whether the descriptor is there."""
    gevent = sys.modules["gevent"]
    try:
        watcher = hub.loop.io(descriptor.look(), READABLE)
    except OSError:
        # There is none to be had.
        gevent.sleep(LOOK)
        return
    with gevent.Timeout(LOOK, False):
        hub.wait(watcher)


class _Request:
    __slots__ = ("error", "hub", "into", "owner", "waiter")

    def __init__(self, hub: Hub, into: list[Any], owner: int | None) -> None:
        self.hub = hub
        self.into = into
        self.owner = owner
        self.waiter = sys.modules["gevent.hub"].Waiter(hub)
        self.error: BaseException | None = None

    def is_settled(self) -> bool:
        return self.error is not None or bool(self.into)

    def settle(self, value: object, error: BaseException | None) -> None:
        if self.is_settled():
            return  # What handed it on was interrupted.
        if error is not None:
            self.error = error
        elif isinstance(value, BaseException):
            self.error = value
        else:
            self.into.append(value)

    def wake(self) -> bool:
        """Lets the greenlet go on; says whether it can."""
        loop = self.hub.loop
        if loop is None:
            return False  # The hub was destroyed, and its greenlets with it.
        here = self.hub is sys.modules["greenlet"].getcurrent()
        run = loop.run_callback if here else loop.run_callback_threadsafe
        run(self.waiter.switch, None)
        return True
