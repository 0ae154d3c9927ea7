"""Who holds a lock: a thread, or an asyncio task, by a number that is never used for another.

A thread's ident and a task's id are reused once it is gone, and a `ContextVar` is
inherited by child tasks: none of them can say who owns a lock. So every thread and
every task draws its own number, from one counter with a random start.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import weakref


class ThreadOwner:
    """A thread as the owner of locks."""

    __slots__ = ("_thread", "interruptible", "number")

    def __init__(self) -> None:
        thread = threading.current_thread()
        self._thread = weakref.ref(thread)
        self.number = _draw()
        self.interruptible = thread is threading.main_thread()
        """Whether signal handlers run in this thread, so that Ctrl-C must interrupt it."""

    def can_run_at_exit(self) -> bool:
        """Whether the thread may still go on once the main thread has ended."""
        thread = self._thread()
        return thread is not None and thread is not threading.main_thread() and thread.is_alive()


class TaskOwner:
    """An asyncio task as the owner of locks."""

    __slots__ = ("_loop", "number")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.number = _draw()

    def can_run_at_exit(self) -> bool:
        """Whether the task may still go on once the main thread has ended."""
        return self._loop.is_running()


def this_thread() -> ThreadOwner:
    """The calling thread."""
    return _this_thread.owner


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


class _ThisThread(threading.local):
    def __init__(self) -> None:
        self.owner = ThreadOwner()


def _draw() -> int:
    return next(_numbers)


def _start_over() -> None:
    """In the child of a fork: no number that the parent draws is drawn here."""
    global _numbers
    _numbers = _new_numbers()
    # The thread that called fork is the only one now, and so the one that runs signal handlers.
    this_thread().interruptible = True


def _new_numbers() -> itertools.count[int]:
    # 2**56 starts, and no overflow of 64 bits in any process's life.
    return itertools.count(int.from_bytes(os.urandom(7), "big"))


_numbers = _new_numbers()
_this_thread = _ThisThread()
_tasks: weakref.WeakKeyDictionary[asyncio.Task[object], TaskOwner] = weakref.WeakKeyDictionary()

os.register_at_fork(after_in_child=_start_over)
