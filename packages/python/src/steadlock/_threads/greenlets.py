"""Waits of gevent's greenlets for the engine, during which the other greenlets of the thread can run.

The greenlets of a thread take turns. One of them, the hub, waits on behalf of all. A call that must wait therefore
leaves the wait to the hub. Nothing here imports gevent: a program that has a hub has imported gevent. This works
whether or not gevent has patched the standard library.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from steadlock import _native
from steadlock._context import hub_of_thread, threads_are_greenlets
from steadlock._descriptor import CHECK_INTERVAL, Descriptor
from steadlock._reentrant_queue import first, remove_item

Hub: TypeAlias = Any
"""A `gevent.hub.Hub`."""

READABLE = 1
"""The event for which a watcher of gevent's loop waits."""


class GreenletWaits:
    """The requests of one client for which greenlets wait, in any number of threads.

    The client's file descriptor is readable while there are results. Each hub with waiting greenlets listens to it. The
    first hub that wakes up takes all results, and passes those for the greenlets of another hub to that hub.
    """

    def __init__(self, native: _native.Client, deliver: Callable[[], None]) -> None:
        self._native = native
        # Takes the queued events, in a hub.
        self._deliver = deliver
        self._requests: dict[int, _Request] = {}
        # The requests whose results have come and were not passed on yet.
        self._settled: list[_native.Settled[_Request]] = []
        self._hub_listeners: dict[Hub, _HubListener] = {}

    def wait(
        self, hub: Hub, results: list[Any], submit: Callable[..., int], *args: Any, owner: int | None = None
    ) -> None:
        """Submits a request, and appends its result to `results` as soon as it comes, so that a later interrupt of the
        caller cannot lose the result. Raises the error of a request that failed or was refused.

        If the greenlet is killed, a `gevent.Timeout` ends its wait, or its thread ends, the request is cancelled; a
        lock that is granted to the request is released.
        """
        request = _Request(hub, results, owner, submit, args)
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
            self._unlisten(hub, request)
        if request.is_exiting:
            raise _exit_exception()
        if request.error is not None:
            raise request.error

    def deliver(self, completed: list[_native.Completed]) -> None:
        """Passes the results to the greenlets that wait for them, and empties the list. Releases a lock for which no
        greenlet waits.
        """
        _native.settle(completed, self._requests, self._settled)
        while (one := first(self._settled)) is not None:
            request, value, error = one
            is_wanted = request is not None and request.settle(value, error)
            if request is not None and not request.wake():
                is_wanted = False
                self._hub_listeners.pop(request.hub, None)
            if not is_wanted and isinstance(value, _native.Lease):
                self._native.return_grant(value.id)
            remove_item(self._settled, one)

    def owners_have_ended(self, numbers: Iterable[int | None]) -> None:
        """Cancels the requests of the greenlets of an ended thread, because none of them can run any more."""
        ended = set(numbers)
        for number, request in list(self._requests.items()):
            if request.owner in ended and self._requests.pop(number, None) is not None:
                self._hub_listeners.pop(request.hub, None)
                self._native.cancel(number)

    def end(self) -> None:
        """Called at the end of the process. Ends the waiting greenlets of this thread, so that they release what they
        hold.
        """
        hub = hub_of_thread()
        for number, request in list(self._requests.items()):
            if request.hub is hub and self._requests.pop(number, None) is not None:
                self._native.cancel(number)
                request.is_exiting = True
                request.wake()

    def stop_listening(self) -> None:
        for listener in list(self._hub_listeners.values()):
            listener.stop()

    def _listen(self, hub: Hub, request: _Request) -> None:
        while True:
            listener = self._hub_listeners.get(hub)
            if listener is None:
                new = _HubListener(hub, self._native, self._deliver)
                listener = self._hub_listeners.setdefault(hub, new)
                if listener is not new:
                    new.close()
            listener.requests.add(request)
            listener.listen()
            # A signal handler can have waited here meanwhile, and closed the listener after its own wait.
            if self._hub_listeners.get(hub) is listener:
                return

    def _unlisten(self, hub: Hub, request: _Request) -> None:
        listener = self._hub_listeners.get(hub)
        if listener is None:
            return
        listener.requests.discard(request)
        # An active watcher would keep the program from ending.
        if not listener.requests and self._hub_listeners.pop(hub, None) is listener:
            if listener.requests:
                # Other requests were added meanwhile.
                self._hub_listeners.setdefault(hub, listener).requests.update(listener.requests)
            else:
                listener.close()


class _HubListener:
    """The listener of one hub, with the requests of its greenlets.

    The program can close the descriptor to which the listener listens. The listener therefore checks the descriptor
    regularly, and listens to a new one if necessary.
    """

    __slots__ = ("_deliver", "_descriptor", "_hub", "_timer", "_watcher", "requests")

    def __init__(self, hub: Hub, native: _native.Client, deliver: Callable[[], None]) -> None:
        self._hub = hub
        self._deliver = deliver
        self._descriptor = Descriptor(native)
        self._watcher: Any = None
        # The watcher keeps the program from ending, so the timer need not.
        self._timer = hub.loop.timer(CHECK_INTERVAL, CHECK_INTERVAL, ref=False)
        self.requests: set[_Request] = set()

    def listen(self) -> None:
        run = self._hub.loop.run_callback
        if self._watcher is None:
            # If the system has no descriptor left, results arrive at the next check.
            with contextlib.suppress(OSError):
                self._watcher = self._hub.loop.io(self._descriptor.refresh(), READABLE)
        # The callback is not `_deliver` itself: gevent stops a watcher whose callback raises, and Ctrl-C can make
        # `_deliver` raise.
        if self._watcher is not None and not self._watcher.active:
            self._watcher.start(run, self._deliver)
        if not self._timer.active:
            self._timer.start(run, self._check_descriptor)

    def stop(self) -> None:
        self._timer.stop()
        if self._watcher is not None:
            self._watcher.stop()

    def close(self) -> None:
        self.stop()
        self._timer.close()
        self._close_watcher()

    def _check_descriptor(self) -> None:
        if not self._timer.active:
            return
        if not self._descriptor.is_current():
            self._close_watcher()
            self.listen()
        # This also follows the log's level.
        self._deliver()

    def _close_watcher(self) -> None:
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.stop()
            watcher.close()


def wait_in_hub(hub: Hub, descriptor: Descriptor) -> None:
    """Waits in a hub until there are events, or until the descriptor must be checked again."""
    gevent = sys.modules["gevent"]
    try:
        watcher = hub.loop.io(descriptor.refresh(), READABLE)
    except OSError:
        # The system has no descriptor left.
        gevent.sleep(CHECK_INTERVAL)
        return
    with gevent.Timeout(CHECK_INTERVAL, False):
        hub.wait(watcher)


def _exit_exception() -> BaseException:
    """Returns the exception that silently ends a greenlet, or a thread that is a greenlet."""
    is_thread = threads_are_greenlets() and not isinstance(threading.current_thread(), threading._DummyThread)
    exit_of_greenlet: type[BaseException] = sys.modules["gevent"].GreenletExit
    return SystemExit() if is_thread else exit_of_greenlet()


class _Request:
    __slots__ = ("args", "error", "hub", "is_abandoned", "is_exiting", "number", "owner", "results", "submit", "waiter")

    def __init__(
        self, hub: Hub, results: list[Any], owner: int | None, submit: Callable[..., int], args: tuple[Any, ...]
    ) -> None:
        self.hub = hub
        self.results = results
        self.owner = owner
        self.submit: Callable[..., int] | None = submit
        self.args = args
        self.number: int | None = None
        self.waiter = sys.modules["gevent.hub"].Waiter(hub)
        self.error: BaseException | None = None
        self.is_abandoned = False
        """Whether the caller stopped waiting before the result came."""
        self.is_exiting = False
        """Whether the process ends, so that the caller gets no result."""

    def settle(self, value: object, error: BaseException | None) -> bool:
        """Stores the result. Returns whether the caller still waits for it. A second call stores nothing."""
        if self.error is None and not self.results:
            if error is not None:
                self.error = error
            elif isinstance(value, BaseException):
                self.error = value
            else:
                self.results.append(value)
        return not self.is_abandoned

    def wake(self) -> bool:
        """Wakes the greenlet. Returns whether it can run. A second call does nothing."""
        loop = self.hub.loop
        if loop is None:
            return False  # The hub was destroyed together with its greenlets.
        here = self.hub is sys.modules["greenlet"].getcurrent()
        run = loop.run_callback if here else loop.run_callback_threadsafe
        run(self.waiter.switch, None)
        return True
