"""How a greenlet of gevent waits for the engine while the others of its thread go on.

gevent runs the greenlets of a thread by turns; one of them, the hub, waits for all. So a
call that must wait leaves that to the hub. Nothing here imports gevent: where it runs, the
program has imported it, and whether it has patched the standard library does not matter.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from steadlock import _native
from steadlock._context import hub_of_thread, threads_are_greenlets
from steadlock._descriptor import LOOK, Descriptor
from steadlock._handing_on import first, take_out

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
        self._requests: dict[int, _Request] = {}
        # Whose results have come, and are still to be handed on.
        self._settled: list[_native.Settled[_Request]] = []
        self._listening: dict[Hub, _Ear] = {}

    def wait(self, hub: Hub, into: list[Any], submit: Callable[..., int], *args: Any, owner: int | None = None) -> None:
        """Submits a request and appends its result to `into`, at once when it comes: what
        interrupts the caller after it cannot hide it. A refusal is raised.

        If the greenlet is killed or timed out, or its thread ends, the request is forgotten; a
        lock that it gets is released.
        """
        request = _Request(hub, into, owner, submit, args)
        try:
            self._listen(hub, request)
            _native.submit(self._requests, request)
            request.waiter.get()
        except BaseException:
            request.is_abandoned = True
            raise
        finally:
            number = request.number
            if number is not None and self._requests.pop(number, None) is not None:
                self._native.cancel(number)
            self._listen_no_more(hub, request)
        if request.leaves:
            raise _leaving()
        if request.error is not None:
            raise request.error

    def answer(self, completed: list[_native.Completed]) -> None:
        """Hands the results on to the waiters, and empties the list. A lock that nobody waits for is released."""
        _native.settle(completed, self._requests, self._settled)
        while (one := first(self._settled)) is not None:
            request, value, error = one
            is_wanted = request is not None and request.settle(value, error)
            if request is not None and not request.wake():
                is_wanted = False
                self._listening.pop(request.hub, None)
            if not is_wanted and isinstance(value, _native.Lease):
                self._native.release_later(value.id)
            take_out(self._settled, one)

    def owners_have_ended(self, numbers: Iterable[int | None]) -> None:
        """Forgets what the greenlets of an ended thread wait for: none of them goes on."""
        ended = set(numbers)
        for number, request in list(self._requests.items()):
            if request.owner in ended and self._requests.pop(number, None) is not None:
                self._listening.pop(request.hub, None)
                self._native.cancel(number)

    def end(self) -> None:
        """At the end of the process: the greenlets of this thread that wait end, and let go of what they hold."""
        hub = hub_of_thread()
        for number, request in list(self._requests.items()):
            if request.hub is hub and self._requests.pop(number, None) is not None:
                self._native.cancel(number)
                request.leaves = True
                request.wake()

    def stop_listening(self) -> None:
        for ear in list(self._listening.values()):
            ear.stop()

    def _listen(self, hub: Hub, request: _Request) -> None:
        while True:
            ear = self._listening.get(hub)
            if ear is None:
                made = _Ear(hub, self._native, self._hear)
                ear = self._listening.setdefault(hub, made)
                if ear is not made:
                    made.close()
            ear.listeners.add(request)
            ear.listen()
            # A signal handler may have waited here meanwhile, and closed it after its own wait.
            if self._listening.get(hub) is ear:
                return

    def _listen_no_more(self, hub: Hub, request: _Request) -> None:
        ear = self._listening.get(hub)
        if ear is None:
            return
        ear.listeners.discard(request)
        # A watcher that goes on would keep the program from its end.
        if not ear.listeners and self._listening.pop(hub, None) is ear:
            if ear.listeners:
                # Others came here meanwhile.
                self._listening.setdefault(hub, ear).listeners.update(ear.listeners)
            else:
                ear.close()


class _Ear:
    """How a hub gets results, and for which of its greenlets' requests.

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
        self.listeners: set[_Request] = set()

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


def _leaving() -> BaseException:
    """Ends a greenlet silently, or a thread that is one."""
    is_thread = threads_are_greenlets() and not isinstance(threading.current_thread(), threading._DummyThread)
    exit_of_greenlet: type[BaseException] = sys.modules["gevent"].GreenletExit
    return SystemExit() if is_thread else exit_of_greenlet()


class _Request:
    __slots__ = ("args", "error", "hub", "into", "is_abandoned", "leaves", "number", "owner", "submit", "waiter")

    def __init__(
        self, hub: Hub, into: list[Any], owner: int | None, submit: Callable[..., int], args: tuple[Any, ...]
    ) -> None:
        self.hub = hub
        self.into = into
        self.owner = owner
        self.submit: Callable[..., int] | None = submit
        self.args = args
        self.number: int | None = None
        self.waiter = sys.modules["gevent.hub"].Waiter(hub)
        self.error: BaseException | None = None
        self.is_abandoned = False
        """Whether the caller went away without waiting to the end."""
        self.leaves = False
        """Whether the process ends, and the caller has no answer."""

    def settle(self, value: object, error: BaseException | None) -> bool:
        """Gives the result; says whether anybody waits for it. The second time it does nothing."""
        if self.error is None and not self.into:
            if error is not None:
                self.error = error
            elif isinstance(value, BaseException):
                self.error = value
            else:
                self.into.append(value)
        return not self.is_abandoned

    def wake(self) -> bool:
        """Lets the greenlet go on; says whether it can. The second time it does nothing."""
        loop = self.hub.loop
        if loop is None:
            return False  # The hub was destroyed, and its greenlets with it.
        here = self.hub is sys.modules["greenlet"].getcurrent()
        run = loop.run_callback if here else loop.run_callback_threadsafe
        run(self.waiter.switch, None)
        return True
