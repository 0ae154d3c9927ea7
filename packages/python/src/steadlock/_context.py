"""The owners of locks: threads, tasks of asyncio or trio, and greenlets. Each has a number that no other owner ever
has.

A thread's ident and a task's id are reused after its end, and child tasks inherit a `ContextVar`, so none of these can
identify an owner. Every possible owner therefore draws a number from one counter with a random start.
"""

from __future__ import annotations

import _thread
import itertools
import os
import sys
import threading
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from steadlock import _native
from steadlock.errors import MisconfiguredError

if TYPE_CHECKING:
    # A program with threads need not load asyncio, which takes longer than everything else here.
    import asyncio


class Owner(Protocol):
    """The owner of a lock."""

    @property
    def number(self) -> int: ...
    @property
    def kind(self) -> str:
        """The kind of owner, for messages."""
        ...

    def can_run_at_exit(self) -> bool:
        """Whether the owner can still run after the end of the main thread."""
        ...


class Caller:
    """The owner of locks of a blocking client.

    A caller is the task or greenlet that runs in the calling thread, or else the thread itself. Some threads run jobs
    of other threads, each job in a `contextvars` context of its own (`asyncio.to_thread`, the worker threads of anyio).
    Such a thread is another caller for each job, because a job must not re-enter a lock that an earlier job has left
    held.

    A caller also owns a lock of `steadlock.aio` that it acquired outside of an event loop.
    """

    __slots__ = ("__weakref__", "_fiber", "_has_ended", "_is_watched", "is_fiber", "kind", "number", "thread")

    def __init__(self, thread: Thread, fiber: object = None) -> None:
        self.thread = thread
        self.number = next(_numbers)
        self.is_fiber = fiber is not None
        """Whether the caller is a fiber: a task or a greenlet, which shares its thread with other callers."""
        self.kind = "greenlet" if self.is_fiber else "thread"
        self._fiber = None if fiber is None else _FiberRef(fiber, self.number)
        self._is_watched = False
        self._has_ended = False
        thread.callers.add(self)

    def fiber_has_ended(self) -> bool:
        """Whether the task or greenlet has ended. Called only in the caller's own thread, so a caller that is a thread
        has not ended.
        """
        if self._fiber is None:
            return False
        fiber: Any = self._fiber()
        if fiber is None:
            return True
        return _is_done(fiber) if _is_task(fiber) else bool(fiber.dead)

    def has_ended(self) -> bool:
        """Whether the thread or the job has ended."""
        return self._has_ended or self.thread.has_ended

    def end(self) -> None:
        """Called when the job has ended, in the middle of any other code, and possibly more than once."""
        if os.getpid() != self.thread.process:
            # The child of a fork drops the contexts of the parent's other threads, whose jobs have not ended. The drop
            # calls this method.
            return
        self._has_ended = True
        if not self.thread.has_ended:
            self.kind = "job"
        _report_ended([self.number])

    def watch_end(self) -> None:
        """Makes sure that the clients learn of the owner's end, unless the owner is a task: see `_FiberRef`. A greenlet
        can end without being dropped, so it needs a callback. The ends of threads and jobs are always reported; an end
        that came before this call is reported again.
        """
        if self.has_ended():
            _report_ended([self.number])
            return
        if self._is_watched or self._fiber is None:
            return
        fiber: Any = self._fiber()
        if not _is_task(fiber) and hasattr(fiber, "rawlink"):
            fiber.rawlink(_end_reporter(self.number))
        # Set last: after an interrupt in between, the next call adds a second callback, which does no harm.
        self._is_watched = True

    def can_run_at_exit(self) -> bool:
        return self.thread.can_run_at_exit()


class Thread:
    """A thread, identified by this object. Its ident does not identify it, because idents are reused."""

    __slots__ = ("_native_id", "_thread", "callers", "has_ended", "interruptible", "own_caller", "process")

    def __init__(self) -> None:
        thread = threading.current_thread()
        self._thread = weakref.ref(thread)
        # If gevent has patched `threading`, the thread object can be that of one greenlet. The native id identifies
        # the real thread.
        self._native_id = threading.get_native_id()
        self.interruptible = thread is threading.main_thread()
        """Whether signal handlers run in this thread, so that Ctrl-C must interrupt its waits."""
        self.own_caller: Caller | None = None
        """The caller for callbacks of the thread's event loop. It is replaced after it has ended."""
        self.has_ended = False
        self.process = os.getpid()
        """The id of the thread's process. The child of a fork drops the objects of the parent's other threads, although
        these threads have not ended.
        """
        self.callers: weakref.WeakSet[Caller] = weakref.WeakSet()

    def runs(self, caller: Caller) -> bool:
        return self._native_id == caller.thread._native_id

    def end(self) -> None:
        """Called when the thread has ended, in the middle of any other code, and possibly more than once."""
        if os.getpid() != self.process:
            # The child of a fork drops the parent's other threads, which have not ended. The drop calls this method.
            return
        self.has_ended = True
        _report_ended([caller.number for caller in self.callers])

    def can_run_at_exit(self) -> bool:
        thread = self._thread()
        return thread is not None and thread is not threading.main_thread() and thread.is_alive()


class TaskOwner:
    """An asyncio task as the owner of locks of `steadlock.aio`."""

    __slots__ = ("_is_watched", "_loop", "_task", "number")
    kind = "task"

    def __init__(self, task: asyncio.Task[object]) -> None:
        self._loop = task.get_loop()
        self._task = weakref.ref(task)
        self._is_watched = False
        self.number = next(_numbers)

    def watch_end(self) -> None:
        """Makes sure that the clients learn of the task's end. If the task has ended, reports the end now: another task
        can have awaited the call that this task made.
        """
        task, number = self._task(), self.number
        if task is None or task.done() or self._loop.is_closed():
            _report_ended([number])
        elif self._is_watched:
            pass
        elif sys.modules["asyncio"]._get_running_loop() is not self._loop:
            # This call does not run in the task's own loop, and only that loop may add the callback.
            self._loop.call_soon_threadsafe(self.watch_end)
        else:
            task.add_done_callback(_end_reporter(number))
            # Set last: after an interrupt in between, the next call adds a second callback, which does no harm.
            self._is_watched = True

    def can_run_at_exit(self) -> bool:
        return self._loop.is_running()


def current_caller() -> Caller:
    """Returns the caller for a call of a blocking client."""
    thread = thread_local.thread
    loop = running_loop()
    fiber: object = None
    if loop is not None:
        fiber = sys.modules["asyncio"].current_task(loop)
    elif _TRIO in sys.modules:
        fiber = _running_task_of_trio()
    if fiber is None and loop is None and "greenlet" in sys.modules:
        fiber = _running_greenlet()
    if fiber is not None:
        caller = _fiber_callers.get(fiber)
        if caller is None:
            # A signal handler may have run this function meanwhile, and can hold a lock as the caller that it made.
            caller = _fiber_callers.setdefault(fiber, Caller(thread, fiber))
        if caller.thread is not thread:
            caller = _fiber_callers[fiber] = Caller(thread, fiber)
        return caller
    own_caller = thread.own_caller
    if own_caller is not None and own_caller.has_ended():
        own_caller = None
    if loop is not None:
        # The call comes from a callback of the loop, whose context identifies no job.
        if own_caller is None:
            own_caller = thread.own_caller = Caller(thread)
        return own_caller
    inherited = job = _job.get()
    while job is not None and job.caller.thread is not thread:
        job = job.outer
    if job is None:
        if inherited is not None and inherited.caller.has_ended():
            inherited = None
        job = _new_job(thread, inherited)
        if own_caller is None:
            thread.own_caller = job.caller
    return job.caller


def _new_job(thread: Thread, inherited: _Job | None) -> _Job:
    job = _Job(Caller(thread), inherited)
    before = _job.set(job).old_value
    if isinstance(before, _Job) and before.caller.thread is thread:
        # A signal handler has run this function meanwhile, and can hold a lock as the caller that it made.
        _job.set(before)
        return before
    return job


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Returns the event loop in which the caller runs. asyncio knows the loop of a thread. If the thread runs several
    greenlets of gevent, only one of them runs the loop; for the others, returns `None`.
    """
    # Before asyncio is loaded, and while another thread still loads it, no loop runs here.
    loop_of_thread = getattr(sys.modules.get("asyncio.events"), "_get_running_loop", None)
    if loop_of_thread is None:
        return None
    loop: asyncio.AbstractEventLoop | None = loop_of_thread()
    if loop is None or hub_of_thread() is None:
        return loop
    asyncio = sys.modules["asyncio"]
    task = asyncio.current_task(loop)
    # A loop that is not written in Python has no frame, but its task has one.
    body = getattr(task.get_coro(), "cr_frame", None) if task is not None else None
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame is body or frame.f_code is asyncio.BaseEventLoop.run_forever.__code__:
            return loop
        frame = frame.f_back
    return None


def hub_of_thread() -> Any:
    """Returns gevent's hub in the calling thread, if there is one: the greenlet that waits on behalf of the others."""
    hubs = sys.modules.get(_HUBS)
    return None if hubs is None else hubs.get_hub_if_exists()


def running_hub() -> Any:
    """Returns the hub that must run while the caller waits; `None` if the wait must block the thread."""
    if _HUBS not in sys.modules:
        return None
    hub = hub_of_thread()
    if hub is None or hub is sys.modules["greenlet"].getcurrent():
        # A callback of the hub itself cannot wait in the hub.
        return None
    # In an event loop the hub is no help: the loop's other tasks could not run in any case.
    return hub if running_loop() is None else None


def is_hub() -> bool:
    """Whether the caller is a hub itself. A hub must not wait."""
    hub = hub_of_thread()
    return hub is not None and hub is sys.modules["greenlet"].getcurrent()


def threads_are_greenlets() -> bool:
    """Whether gevent has patched `threading`. Starting a thread then switches greenlets."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("threading"))


def start_thread(work: Callable[..., None], *args: object) -> None:
    """Starts a thread that is never joined, not even at the end of the process."""
    # The original function, even if gevent has patched it.
    monkey = sys.modules.get("gevent.monkey")
    start = _thread.start_new_thread if monkey is None else monkey.get_original("_thread", "start_new_thread")
    start(work, args)


def refuse_eventlet(operation: str) -> None:
    """Raises `MisconfiguredError` in a thread that runs green threads of eventlet."""
    hubs = sys.modules.get("eventlet.hubs")
    if hubs is not None and getattr(hubs._threadlocal, "hub", None) is not None:
        raise MisconfiguredError(
            "eventlet is not supported: a wait would stop every green thread; use gevent, threads, or steadlock.aio",
            operation=operation,
        )


def current_owner() -> TaskOwner | Caller | None:
    """Returns the owner for a call of `steadlock.aio`: the running task; outside of an event loop, the `Caller` as for
    a blocking client; `None` in a callback, because a callback ends before a lock can be granted.
    """
    loop = running_loop()
    if loop is None:
        caller = current_caller()
        # Must be called in the caller's own thread, because only there its hub can be used.
        caller.watch_end()
        return caller
    task = sys.modules["asyncio"].current_task(loop)
    if task is None:
        return None
    owner = _task_owners.get(task)
    if owner is None:
        owner = _task_owners.setdefault(task, TaskOwner(task))
    return owner


def _running_greenlet() -> object:
    """Returns the running greenlet, unless it is the thread's main greenlet."""
    current: Any = sys.modules["greenlet"].getcurrent()
    return current if current.parent is not None else None


def _running_task_of_trio() -> object:
    """Returns the running task of trio, if trio runs in this thread."""
    try:
        return sys.modules[_TRIO].current_task()
    # Trio does not run here, or it is still being imported.
    except (RuntimeError, AttributeError):
        return None


def _is_task(fiber: object) -> bool:
    """Whether the object is a task, and not a greenlet."""
    kinds = (getattr(sys.modules.get("asyncio"), "Future", None), getattr(sys.modules.get(_TRIO), "Task", None))
    return any(kind is not None and isinstance(fiber, kind) for kind in kinds)


def _is_done(task: Any) -> bool:
    # A task of trio has no `done()`.
    return bool(task.done()) if hasattr(task, "done") else task.coro.cr_frame is None


class _FiberRef(weakref.ref[Any]):
    """A weak reference to a fiber: a task or a greenlet, which takes turns with others of its thread."""

    __slots__ = ()

    def __new__(cls, fiber: object, number: int) -> Self:
        # The end of a task is not reported: in a notebook, a later task uses the locks that an ended task left held.
        return super().__new__(cls, fiber, None if _is_task(fiber) else _end_reporter(number))


class _ThreadLocal(threading.local):
    thread: Thread

    # Called only if the attribute is not set yet. A finalizer can call this function in the middle of another call of
    # it. `setdefault` makes both calls use the object that was stored first.
    def __getattr__(self, name: str) -> Thread:
        if name != "thread":
            raise AttributeError(name)
        end: _EndGuard = self.__dict__.setdefault("end", _EndGuard(Thread()))
        self.thread = end.thread
        return end.thread


class _EndGuard:
    """An object that is dropped when its thread ends."""

    __slots__ = ("_at_end", "thread")

    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        self._at_end = _native.AtEnd(thread.end)


class _Job:
    """The running job of a thread. The job's context and copies of that context refer to this object. When the last of
    them is dropped, the job counts as ended.

    A framework can pass the context of one job on to the next, as asgiref does: then both jobs are one caller.
    """

    __slots__ = ("_at_end", "caller", "outer")

    def __init__(self, caller: Caller, outer: _Job | None) -> None:
        self.caller = caller
        # If this job's context was copied from that of a job of another thread, `outer` is that job. If the context
        # returns to that thread, `outer` is the running job again.
        self.outer = outer
        self._at_end = _native.AtEnd(caller.end)


def set_end_listener(listener: Callable[[list[int | None]], None]) -> None:
    """Sets the listener that gets the numbers of owners that have ended."""
    global _report_ended
    _report_ended = listener


def _end_reporter(number: int) -> Callable[[object], None]:
    """Returns a function that reports the end of this owner. No interrupt can skip the report, because nothing else
    would report the end.
    """
    return _native.Uninterrupted(partial(_report_end, number))


def _report_end(number: int) -> None:
    _report_ended([number])


def _after_fork() -> None:
    """Called in the child of a fork. The child must draw no number that the parent draws."""
    global _numbers
    _numbers = _new_numbers()
    # The thread that called fork is the only one now, so it runs the signal handlers.
    thread_local.thread.interruptible = True
    thread_local.thread.process = os.getpid()


def _new_numbers() -> itertools.count[int]:
    # With 2**56 possible starts, the counter does not overflow 64 bits in the life of a process.
    return itertools.count(int.from_bytes(os.urandom(7), "big"))


def _ignore_ended(numbers: list[int | None]) -> None: ...


_report_ended: Callable[[list[int | None]], None] = _ignore_ended
_TRIO = "trio.lowlevel"
_HUBS = "gevent._hub_local"
"""The module with gevent's hubs, if the program has imported it."""
_numbers = _new_numbers()
thread_local: Final = _ThreadLocal()
"""The attribute `thread` of this object is the calling thread."""
_job: ContextVar[_Job | None] = ContextVar("steadlock_job", default=None)
"""The running job of the context. If the value was inherited from another thread, it is not the running job of this
thread.
"""
_fiber_callers: weakref.WeakKeyDictionary[Any, Caller] = weakref.WeakKeyDictionary()
_task_owners: weakref.WeakKeyDictionary[asyncio.Task[object], TaskOwner] = weakref.WeakKeyDictionary()

os.register_at_fork(after_in_child=_after_fork)
