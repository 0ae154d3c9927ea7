"""Who holds a lock: a thread, an asyncio task or a greenlet, by a number that is never used for another.

A thread's ident and a task's id are reused once it is gone, and a `ContextVar` is
inherited by child tasks: none of them can say who owns a lock. So everybody who may own
one draws a number, from one counter with a random start.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import threading
import weakref
from contextvars import ContextVar
from typing import Any, Protocol


class _Turn(Protocol):
    """What runs by turns with others of its thread: a task or a greenlet."""

    def __hash__(self) -> int: ...


class Caller:
    """The owner of what a blocking client holds.

    It is the task or greenlet that runs in the calling thread, or else the thread. A
    thread that runs jobs of several others, each in a context of its own (`asyncio.to_thread`,
    the worker threads of anyio), is another caller for each: what one job has left held, the
    next one must not enter.
    """

    __slots__ = ("__weakref__", "_turn", "number", "takes_turns", "thread")

    def __init__(self, thread: Thread, turn: _Turn | None = None) -> None:
        self.thread = thread
        self.number = _draw()
        self.takes_turns = turn is not None
        """Whether others of the same thread stand still while it waits."""
        self._turn = None if turn is None else weakref.ref(turn)

    @property
    def interruptible(self) -> bool:
        """Whether signal handlers run in its thread, so that Ctrl-C must interrupt it."""
        return self.thread.interruptible

    def is_over(self) -> bool:
        """Whether the task or greenlet has ended. A thread that calls has not."""
        if self._turn is None:
            return False
        turn: Any = self._turn()
        if turn is None:
            return True
        return bool(turn.done() if isinstance(turn, asyncio.Future) else turn.dead)

    def can_run_at_exit(self) -> bool:
        """Whether the thread may still go on once the main thread has ended."""
        return self.thread.can_run_at_exit()


class Thread:
    """A thread, which its ident does not tell for ever."""

    __slots__ = ("_native_id", "_thread", "first", "interruptible")

    def __init__(self) -> None:
        thread = threading.current_thread()
        self._thread = weakref.ref(thread)
        # What greenlets take for a thread may be one greenlet; this tells threads apart.
        self._native_id = threading.get_native_id()
        self.interruptible = thread is threading.main_thread()
        self.first: Caller | None = None
        """The thread as a caller, outside of later jobs."""

    def is_that_of(self, caller: Caller) -> bool:
        return self._native_id == caller.thread._native_id

    def can_run_at_exit(self) -> bool:
        thread = self._thread()
        return thread is not None and thread is not threading.main_thread() and thread.is_alive()


class TaskOwner:
    """An asyncio task as the owner of what a client of `leasehold.aio` holds."""

    __slots__ = ("_loop", "number")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.number = _draw()

    def can_run_at_exit(self) -> bool:
        """Whether the task may still go on once the main thread has ended."""
        return self._loop.is_running()


def this_caller() -> Caller:
    """Who calls a blocking client."""
    thread = _this_thread.thread
    loop = asyncio._get_running_loop()
    turn: _Turn | None = _running_greenlet() if loop is None else asyncio.current_task(loop)
    if turn is not None:
        caller = _turns.get(turn)
        if caller is None or caller.thread is not thread:
            caller = _turns[turn] = Caller(thread, turn)
        return caller
    first = thread.first
    if loop is not None and first is not None:
        # A callback, whose context says nothing.
        return first
    caller = _job.get()
    if caller is None or caller.thread is not thread:
        caller = Caller(thread)
        _job.set(caller)
        if first is None:
            thread.first = caller
    return caller


def this_task() -> TaskOwner | None:
    """The running task; `None` in a callback, and outside of an event loop."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return None
    if task is None:
        return None
    owner = _tasks.get(task)
    if owner is None:
        owner = _tasks[task] = TaskOwner(task.get_loop())
    return owner


def _running_greenlet() -> _Turn | None:
    """The greenlet that runs, unless it is the thread's own."""
    greenlets = sys.modules.get("greenlet")
    if greenlets is None:
        return None
    current: Any = greenlets.getcurrent()
    turn: _Turn | None = current if current.parent is not None else None
    return turn


class _ThisThread(threading.local):
    def __init__(self) -> None:
        self.thread = Thread()


def _draw() -> int:
    return next(_numbers)


def _start_over() -> None:
    """In the child of a fork: no number that the parent draws is drawn here."""
    global _numbers
    _numbers = _new_numbers()
    # The thread that called fork is the only one now, and so the one that runs signal handlers.
    _this_thread.thread.interruptible = True


def _new_numbers() -> itertools.count[int]:
    # 2**56 starts, and no overflow of 64 bits in any process's life.
    return itertools.count(int.from_bytes(os.urandom(7), "big"))


_numbers = _new_numbers()
_this_thread = _ThisThread()
_job: ContextVar[Caller | None] = ContextVar("leasehold_job", default=None)
"""The caller that is the running job of its thread. A job that inherits another thread's is its own."""
_turns: weakref.WeakKeyDictionary[_Turn, Caller] = weakref.WeakKeyDictionary()
_tasks: weakref.WeakKeyDictionary[asyncio.Task[object], TaskOwner] = weakref.WeakKeyDictionary()

os.register_at_fork(after_in_child=_start_over)
