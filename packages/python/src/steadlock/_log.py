"""The log: losses, failing renewals and lost connections, with the core's messages.

A log handler can block for seconds, for example one with a socket in a network partition. Lines are therefore written
in a thread of their own, and no report of a loss waits for that thread.

The program can configure its logging at any time, so nothing is decided at import: each client checks the level again
within `CHECK_INTERVAL` seconds.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
import weakref
from collections import deque
from queue import Empty, SimpleQueue
from typing import Protocol

from steadlock import _context, _native
from steadlock._daemon_thread import DaemonThread
from steadlock._descriptor import CHECK_INTERVAL

_NAME = "steadlock"
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
_URGENT = ("warn", "error")
_LIMIT, _URGENT_LIMIT = 1_000, 10_000
"""How many lines can wait for the handlers. The higher limit is for urgent lines; each lost lock has an urgent line."""
FLUSH_LIMIT = 0.1
"""How many seconds a close and the end of the process wait for the handlers."""
FLUSH_STEP = 0.001


class _OwnLogger(logging.Logger):
    """The logger `steadlock` for a program that has not made one of that name.

    By default `logging.config` disables every known logger that a configuration does not name. This logger is not known
    to `logging`, so a program that configures its logging after the import of this package still gets the losses in its
    log. `logging` clears the level caches of known loggers only, so this logger has no cache.
    """

    def __init__(self) -> None:
        super().__init__(_NAME)
        self.parent = logging.getLogger()

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802
        return self.manager.disable < level >= self.getEffectiveLevel()


def _logger() -> logging.Logger:
    """Returns the program's logger of that name, if there is one; otherwise a logger that follows the root logger."""
    known = logging.Logger.manager.loggerDict.get(_NAME)
    return known if isinstance(known, logging.Logger) else _own_logger


def wanted_level() -> str | None:
    """Returns the lowest level that the core must report; `None` if no line would be written."""
    logger = _logger()
    # No generator: an interrupt while a generator is closed would be lost.
    for name, level in _LEVELS.items():
        if logger.isEnabledFor(level):
            return name
    return None


class Level:
    """The log level of one client's core."""

    def __init__(self, native: _native.Client) -> None:
        self._native = native
        self._current: str | None = ""

    def follow(self) -> bool:
        """Sets the core's level to the one that is enabled now. Returns whether any level is enabled."""
        wanted = wanted_level()
        if wanted != self._current:
            self._current = wanted
            self._native.set_log(wanted)
        return wanted is not None


class LogListener(Protocol):
    """A client whose log is off. Such a client has no thread that checks the level."""

    def on_log_enabled(self) -> None:
        """Called when the log is switched on."""
        ...


def notify_when_enabled(client: LogListener) -> None:
    """Calls `on_log_enabled` of the client within `CHECK_INTERVAL` seconds after the log is switched on."""
    _writer.notify_when_enabled(client)


def write(lines: list[_native.Line]) -> None:
    """Moves the lines from the list to the queue of the writer. Never waits for a handler."""
    if lines:
        _writer.put(lines)


def defer(line: _native.Line) -> None:
    """Stores a line until the next `catch_up`. Can be called during a garbage collection, where no thread can be
    started.
    """
    _writer.defer(line)


def catch_up() -> None:
    """Queues the deferred lines. Also writes lines that no thread writes: if threads are greenlets, the writer's
    greenlet never runs in a thread without a hub of gevent.
    """
    if _writer.has_deferred():
        _writer.put([])
    if _writer.is_behind() and _writer.has_no_thread() and _context.hub_of_thread() is None:
        _writer.write()


def is_behind() -> bool:
    """Whether lines have not been written yet."""
    return _writer.is_behind()


def flush(limit: float = FLUSH_LIMIT) -> None:
    """Waits until all lines are written, at most `limit` seconds."""
    if _context.is_hub():
        return  # A hub must not wait: the greenlets that write could not run meanwhile.
    end = time.monotonic() + limit
    while is_behind() and time.monotonic() < end:
        time.sleep(FLUSH_STEP)


def end(limit: float) -> None:
    """Called at the end of the process. Lines that are not written within the limit are dropped: a daemon thread that
    is cut off inside `stderr` would abort the interpreter.
    """
    flush(max(0, min(limit, FLUSH_LIMIT)))
    _writer.end()


class _Writer:
    """A bounded queue of lines, and the thread that writes them.

    The writer has no lock: a signal handler can call any of its methods during another, and would wait there for a log
    handler that another thread runs. Each change is therefore one atomic step of a queue.
    """

    def __init__(self) -> None:
        self._lines: deque[_native.Line] = deque()
        # Lines for which the thread was not woken.
        self._deferred: list[_native.Line] = []
        self._wakeups: SimpleQueue[None] = SimpleQueue()
        self._thread = DaemonThread(self._run, "steadlock-log")
        self._is_writing = False
        self._has_ended = False
        # How many lines were dropped since the last line that reported it.
        self._dropped = 0
        self._listeners: list[weakref.ref[LogListener]] = []

    def defer(self, line: _native.Line) -> None:
        if len(self._deferred) < _URGENT_LIMIT:
            self._deferred.append(line)

    def has_deferred(self) -> bool:
        return bool(self._deferred)

    def put(self, lines: list[_native.Line]) -> None:
        for queue in (self._deferred, lines):
            while (line := _pop_first(queue)) is not None:
                if len(self._lines) < self._limit(line):
                    self._lines.append(line)
                else:
                    self._dropped += 1
        if self.has_no_thread():
            if _context.hub_of_thread() is not None:
                sys.modules["gevent"].spawn(self.write)
            return
        self._wake()

    def notify_when_enabled(self, client: LogListener) -> None:
        self._listeners.append(weakref.ref(client))
        self._wake()

    def write(self) -> None:
        """Passes lines to the logger until there are none, unless another caller does that. Errors of filters and
        handlers do not stop it.
        """
        # The outer loop repeats if lines came after the last check and before `_is_writing` was reset: their callers
        # left them to this call.
        while self._lines and not self._is_writing and not self._has_ended:
            try:
                self._is_writing = True
                while (line := self._next()) is not None:
                    level, text, fields = line
                    try:
                        _logger().log(_LEVELS[level], "%s", text, extra=fields)
                    except Exception:
                        continue
                    except BaseException:
                        # A `sys.exit` of a handler must not end the thread of the log. In another thread the exception
                        # can be Ctrl-C.
                        if not self._thread.is_current():
                            raise
            finally:
                self._is_writing = False

    def has_no_thread(self) -> bool:
        """Whether no thread writes, and none may be started."""
        return not self._thread.is_running() and _context.threads_are_greenlets()

    def is_behind(self) -> bool:
        return not self._has_ended and (self._is_writing or bool(self._lines))

    def end(self) -> None:
        self._has_ended = True

    def _limit(self, line: _native.Line) -> int:
        level, _, _ = line
        if level in _URGENT:
            return _URGENT_LIMIT
        # After a drop, half of the space must be free again, so that the log has one gap and not many small ones.
        return _LIMIT // 2 if self._dropped else _LIMIT

    def _wake(self) -> None:
        # At the end of the process no thread can be started any more, and the log is not needed.
        with contextlib.suppress(RuntimeError):
            if not self._has_ended:
                self._thread.start()
        if self._wakeups.empty():
            self._wakeups.put(None)

    def _run(self) -> None:
        try:
            while not self._has_ended and self._thread.is_latest():
                with contextlib.suppress(Empty):
                    self._wakeups.get(timeout=CHECK_INTERVAL if self._listeners else None)
                self.write()
                self._notify_if_enabled()
        finally:
            # This thread can have taken the wake-up of the thread that replaces it.
            if not self._thread.is_current() and (not self._wakeups.empty() or self._lines):
                self._wakeups.put(None)

    def _notify_if_enabled(self) -> None:
        is_enabled = bool(self._listeners) and wanted_level() is not None
        for _ in range(len(self._listeners)):
            known = self._listeners.pop(0)
            client = known()
            if client is None:
                continue
            if is_enabled:
                client.on_log_enabled()
            else:
                self._listeners.append(known)

    def _next(self) -> _native.Line | None:
        if self._has_ended:
            return None
        dropped = self._dropped
        if dropped and len(self._lines) <= _LIMIT // 2:
            self._dropped -= dropped
            text = f"{dropped} lines of this log were dropped, because its handlers did not keep up"
            return "warn", text, {"event": "left_out", "unsaid": dropped}
        try:
            return self._lines.popleft()
        except IndexError:
            return None


def _pop_first(queue: list[_native.Line]) -> _native.Line | None:
    try:
        return queue.pop(0)
    except IndexError:
        return None  # The queue is empty, or another thread has removed the line.


def _after_fork() -> None:
    """Called in the child of a fork, where the waiting lines belong to the parent."""
    global _writer
    _writer = _Writer()


_own_logger = _OwnLogger()
_writer = _Writer()

os.register_at_fork(after_in_child=_after_fork)
