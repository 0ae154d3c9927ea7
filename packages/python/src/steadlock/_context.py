"""Who holds a lock: a thread, a task of asyncio or of trio, or a greenlet, by a number that is never used for another.

A thread's ident and a task's id are reused once it is gone, and a `ContextVar` is
inherited by child tasks: none of them can say who owns a lock. So everybody who may own
one draws a number, from one counter with a random start.
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
    # A program of threads need not load it: that takes longer than all else here.
    import asyncio


class Owner(Protocol):
    """Who holds a lock."""

    @property
    def number(self) -> int: ...
    @property
    def kind(self) -> str:
        """What it is, for people."""
        ...

    def can_run_at_exit(self) -> bool:
        """Whether it may still go on once the main thread has ended."""
        ...


class Caller:
    """The owner of what a blocking client holds.

    It is the task or greenlet that runs in the calling thread, or else the thread. A
    thread that runs jobs of several others, each in a context of its own (`asyncio.to_thread`,
    the worker threads of anyio), is another caller for each: what one job has left held, the
    next one must not enter.

    It also owns what a client of `steadlock.aio` holds whose method was called outside of an
    event loop.
    """

    __slots__ = ("__weakref__", "_has_ended", "_is_watched", "_turn", "kind", "number", "takes_turns", "thread")

    def __init__(self, thread: Thread, turn: object = None) -> None:
        self.thread = thread
        self.number = _draw()
        self.takes_turns = turn is not None
        """Whether others of the same thread stand still while it waits."""
        self.kind = "greenlet" if self.takes_turns else "thread"
        self._turn = None if turn is None else _Turn(turn, self.number)
        self._is_watched = False
        self._has_ended = False
        thread.callers.add(self)

    def is_over(self) -> bool:
        """Whether the task or greenlet has ended. A thread that calls has not."""
        if self._turn is None:
            return False
        turn: Any = self._turn()
        if turn is None:
            return True
        return _is_done(turn) if _is_task(turn) else bool(turn.dead)

    def has_ended(self) -> bool:
        """Whether the thread or the job has ended."""
        return self._has_ended or self.thread.has_ended

    def end(self) -> None:
        """The job has ended. It may be called in the midst of anything, and again."""
        if os.getpid() != self.thread.process:
            # In the child of a fork the contexts of its parent's other threads are dropped too.
            return
        self._has_ended = True
        if not self.thread.has_ended:
            self.kind = "job"
        _have_ended([self.number])

    def watch_end(self) -> None:
        """Has the clients told when a greenlet ends that may not be dropped then. The ends of
        threads and of jobs are always told; again, if they came before this."""
        if self.has_ended():
            _have_ended([self.number])
            return
        if self._is_watched or self._turn is None:
            return
        turn: Any = self._turn()
        if not _is_task(turn) and hasattr(turn, "rawlink"):
            turn.rawlink(_telling_end_of(self.number))
        # Last, as an interrupt may strike: to be told twice does no harm.
        self._is_watched = True

    def can_run_at_exit(self) -> bool:
        return self.thread.can_run_at_exit()


class Thread:
    """A thread, which its ident does not tell for ever."""

    __slots__ = ("_native_id", "_thread", "callers", "first", "has_ended", "interruptible", "process")

    def __init__(self) -> None:
        thread = threading.current_thread()
        self._thread = weakref.ref(thread)
        # What greenlets take for a thread may be one greenlet; this tells threads apart.
        self._native_id = threading.get_native_id()
        self.interruptible = thread is threading.main_thread()
        """Whether signal handlers run in it, so that Ctrl-C must interrupt its waits."""
        self.first: Caller | None = None
        """The thread as a caller, outside of later jobs."""
        self.has_ended = False
        self.process = os.getpid()
        """The process in which it runs: in the child of a fork all threads of the parent but one are dropped."""
        self.callers: weakref.WeakSet[Caller] = weakref.WeakSet()

    def is_that_of(self, caller: Caller) -> bool:
        return self._native_id == caller.thread._native_id

    def end(self) -> None:
        """The thread has ended. It may be called in the midst of anything, and again."""
        if os.getpid() != self.process:
            # In the child of a fork the other threads of its parent are dropped too.
            return
        self.has_ended = True
        _have_ended([caller.number for caller in self.callers])

    def can_run_at_exit(self) -> bool:
        thread = self._thread()
        return thread is not None and thread is not threading.main_thread() and thread.is_alive()


class TaskOwner:
    """An asyncio task as the owner of what a client of `steadlock.aio` holds."""

    __slots__ = ("_is_watched", "_loop", "_task", "number")
    kind = "task"

    def __init__(self, task: asyncio.Task[object]) -> None:
        self._loop = task.get_loop()
        self._task = weakref.ref(task)
        self._is_watched = False
        self.number = _draw()

    def watch_end(self) -> None:
        """Has the clients told when it ends; now, if it has: another task may have awaited what it began."""
        task, number = self._task(), self.number
        if task is None or task.done() or self._loop.is_closed():
            _have_ended([number])
        elif self._is_watched:
            pass
        elif sys.modules["asyncio"]._get_running_loop() is not self._loop:
            # The task's coroutine runs in another loop, and only the task's own loop may add the callback.
            self._loop.call_soon_threadsafe(self.watch_end)
        else:
            task.add_done_callback(_telling_end_of(number))
            # Last, as an interrupt may strike: to be told twice does no harm.
            self._is_watched = True

    def can_run_at_exit(self) -> bool:
        return self._loop.is_running()


def this_caller() -> Caller:
    """Who calls a blocking client."""
    thread = this_thread.thread
    loop = running_loop()
    turn: object = None
    if loop is not None:
        turn = sys.modules["asyncio"].current_task(loop)
    elif _TRIO in sys.modules:
        turn = _running_task_of_trio()
    if turn is None and loop is None and "greenlet" in sys.modules:
        turn = _running_greenlet()
    if turn is not None:
        caller = _turns.get(turn)
        if caller is None:
            # A signal handler may have come here meanwhile, and hold something as that caller.
            caller = _turns.setdefault(turn, Caller(thread, turn))
        if caller.thread is not thread:
            caller = _turns[turn] = Caller(thread, turn)
        return caller
    first = thread.first
    if first is not None and first.has_ended():
        first = None
    if loop is not None:
        # A callback, whose context says nothing.
        if first is None:
            first = thread.first = Caller(thread)
        return first
    inherited = job = _job.get()
    while job is not None and job.caller.thread is not thread:
        job = job.outer
    if job is None:
        if inherited is not None and inherited.caller.has_ended():
            inherited = None
        job = _new_job(thread, inherited)
        if first is None:
            thread.first = job.caller
    return job.caller


def _new_job(thread: Thread, inherited: _Job | None) -> _Job:
    job = _Job(Caller(thread), inherited)
    before = _job.set(job).old_value
    if isinstance(before, _Job) and before.caller.thread is thread:
        # A signal handler came here meanwhile, and may hold something as that caller.
        _job.set(before)
        return before
    return job


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop in which the caller runs. To asyncio that is one of the thread; where a hub
    of gevent runs several greenlets in it, the loop is one greenlet's."""
    # No loop runs here before asyncio is loaded, nor while another thread still loads it.
    loop_of_thread = getattr(sys.modules.get("asyncio.events"), "_get_running_loop", None)
    if loop_of_thread is None:
        return None
    loop: asyncio.AbstractEventLoop | None = loop_of_thread()
    if loop is None or hub_of_thread() is None:
        return loop
    asyncio = sys.modules["asyncio"]
    task = asyncio.current_task(loop)
    # A loop that is not written in Python has no frame; but its task has.
    body = getattr(task.get_coro(), "cr_frame", None) if task is not None else None
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame is body or frame.f_code is asyncio.BaseEventLoop.run_forever.__code__:
            return loop
        frame = frame.f_back
    return None


def hub_of_thread() -> Any:
    """gevent's hub in the calling thread, if there is one."""
    hubs = sys.modules.get(_HUBS)
    return None if hubs is None else hubs.get_hub_if_exists()


def running_hub() -> Any:
    """The hub that must go on while the caller waits; `None` in a thread without one."""
    if _HUBS not in sys.modules:
        return None
    hub = hub_of_thread()
    if hub is None or hub is sys.modules["greenlet"].getcurrent():
        # What the hub itself calls back cannot leave the wait to it.
        return None
    # The other tasks of an event loop would stand still, whatever the hub does.
    return hub if running_loop() is None else None


def is_hub() -> bool:
    """Whether the caller is a hub itself, which must not wait."""
    hub = hub_of_thread()
    return hub is not None and hub is sys.modules["greenlet"].getcurrent()


def threads_are_greenlets() -> bool:
    """Whether gevent has patched the standard library so: to start a thread switches greenlets then."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("threading"))


def start_thread(work: Callable[..., None], *args: object) -> None:
    """Starts a thread that nobody waits for, not even the end of the process."""
    _original("start_new_thread")(work, args)


def _original(name: str) -> Any:
    """What `_thread` has under this name, whether gevent has patched it or not."""
    monkey = sys.modules.get("gevent.monkey")
    return getattr(_thread, name) if monkey is None else monkey.get_original("_thread", name)


def refuse_eventlet(operation: str) -> None:
    """Raises `MisconfiguredError` in a thread in which green threads of eventlet run."""
    hubs = sys.modules.get("eventlet.hubs")
    if hubs is not None and getattr(hubs._threadlocal, "hub", None) is not None:
        raise MisconfiguredError(
            "eventlet is not supported: a wait would stop every green thread; use gevent, threads, or steadlock.aio",
            operation=operation,
        )


def this_owner() -> TaskOwner | Caller | None:
    """The owner of what a method of `steadlock.aio` acquires that is called here: the running task; outside of an
    event loop the owner of what a blocking client acquires; `None` in a callback, which has ended before anything
    can be granted."""
    loop = running_loop()
    if loop is None:
        caller = this_caller()
        # In its own thread, as a hub may be asked in no other.
        caller.watch_end()
        return caller
    task = sys.modules["asyncio"].current_task(loop)
    if task is None:
        return None
    owner = _tasks.get(task)
    if owner is None:
        owner = _tasks.setdefault(task, TaskOwner(task))
    return owner


def _running_greenlet() -> object:
    """The greenlet that runs, unless it is the thread's own."""
    current: Any = sys.modules["greenlet"].getcurrent()
    return current if current.parent is not None else None


def _running_task_of_trio() -> object:
    """The task that runs, if trio runs in this thread."""
    try:
        return sys.modules[_TRIO].current_task()
    # It has not begun, or it is only being imported.
    except (RuntimeError, AttributeError):
        return None


def _is_task(turn: object) -> bool:
    """Whether that is a task, and not a greenlet."""
    kinds = (getattr(sys.modules.get("asyncio"), "Future", None), getattr(sys.modules.get(_TRIO), "Task", None))
    return any(kind is not None and isinstance(turn, kind) for kind in kinds)


def _is_done(task: Any) -> bool:
    # A task of trio does not say so.
    return bool(task.done()) if hasattr(task, "done") else task.coro.cr_frame is None


class _Turn(weakref.ref[Any]):
    """What runs by turns with others of its thread: a task or a greenlet."""

    __slots__ = ()

    def __new__(cls, turn: object, number: int) -> Self:
        # A task may have left to a later one of its thread what it holds: in a notebook.
        return super().__new__(cls, turn, None if _is_task(turn) else _telling_end_of(number))


class _ThisThread(threading.local):
    thread: Thread

    # Only if it is not there yet. In the midst of this a finalizer may come here too, so the first one is the thread.
    def __getattr__(self, name: str) -> Thread:
        if name != "thread":
            raise AttributeError(name)
        end: _End = self.__dict__.setdefault("end", _End(Thread()))
        self.thread = end.thread
        return end.thread


class _End:
    """Is dropped when its thread ends."""

    __slots__ = ("_at_end", "thread")

    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        self._at_end = _native.AtEnd(thread.end)


class _Job:
    """The running job of a thread, in the job's context: dropped when that is, at its end. Only contexts refer to it.

    A framework may hand the context of one job on to the next one, as asgiref does: then both are one caller.
    """

    __slots__ = ("_at_end", "caller", "outer")

    def __init__(self, caller: Caller, outer: _Job | None) -> None:
        self.caller = caller
        # The job of another thread whose context this thread inherited, and may return to it.
        self.outer = outer
        self._at_end = _native.AtEnd(caller.end)


def tell_ended(listener: Callable[[list[int | None]], None]) -> None:
    """From now on the numbers of owners that have ended are told to `listener`."""
    global _have_ended
    _have_ended = listener


def _telling_end_of(number: int) -> Callable[[object], None]:
    """Has the clients told that this owner has ended, whatever strikes meanwhile: nobody else would."""
    return _native.Uninterrupted(partial(_tell_end_of, number))


def _tell_end_of(number: int) -> None:
    _have_ended([number])


def _draw() -> int:
    return next(_numbers)


def _start_over() -> None:
    """In the child of a fork: no number that the parent draws is drawn here."""
    global _numbers
    _numbers = _new_numbers()
    # The thread that called fork is the only one now, and so the one that runs signal handlers.
    this_thread.thread.interruptible = True
    this_thread.thread.process = os.getpid()


def _new_numbers() -> itertools.count[int]:
    # 2**56 starts, and no overflow of 64 bits in any process's life.
    return itertools.count(int.from_bytes(os.urandom(7), "big"))


def _tell_nobody(numbers: list[int | None]) -> None: ...


_have_ended: Callable[[list[int | None]], None] = _tell_nobody
_TRIO = "trio.lowlevel"
_HUBS = "gevent._hub_local"
"""The module that knows gevent's hubs, once a program has imported it."""
_numbers = _new_numbers()
this_thread: Final = _ThisThread()
"""Its `thread` is the calling one."""
_job: ContextVar[_Job | None] = ContextVar("steadlock_job", default=None)
"""The running job of its thread. A job that inherits another thread's is its own."""
_turns: weakref.WeakKeyDictionary[Any, Caller] = weakref.WeakKeyDictionary()
_tasks: weakref.WeakKeyDictionary[asyncio.Task[object], TaskOwner] = weakref.WeakKeyDictionary()

os.register_at_fork(after_in_child=_start_over)
