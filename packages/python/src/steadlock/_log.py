"""The log: losses, failing renewals and lost connections, as the core words them.

A handler may block for seconds: a socket in a partition does. So lines are written in a
thread of their own, which nobody waits for who has a loss to tell.

The program may configure its logging at any time, so nothing here is settled at import: each
client looks at the level again within `LOOK`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
import weakref
from collections import deque
from queue import Empty, SimpleQueue
from typing import Protocol

from steadlock import _context, _native
from steadlock._descriptor import LOOK

_NAME = "steadlock"
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
_URGENT = ("warn", "error")
_LIMIT, _URGENT_LIMIT = 1_000, 10_000
"""How many lines may wait for the handlers; each lost lock has a line that is urgent."""
FLUSH_LIMIT = 0.1
"""How many seconds a close, and the end of the process, waits for the handlers."""
FLUSH_STEP = 0.001


class _OwnLogger(logging.Logger):
    """The logger `steadlock` of a program that has made none of that name.

    `logging.config` disables every logger that it knows and that a configuration does not name,
    unless told otherwise. It does not know this one, so a program that configures its logging after
    it has imported this package is still told of losses. Nobody clears the cache of a logger that
    `logging` does not know; so this one has none.
    """

    def __init__(self) -> None:
        super().__init__(_NAME)
        self.parent = logging.getLogger()

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802
        return self.manager.disable < level >= self.getEffectiveLevel()


def _logger() -> logging.Logger:
    """The program's logger of that name, if it has one; else one that does what its root says."""
    known = logging.Logger.manager.loggerDict.get(_NAME)
    return known if isinstance(known, logging.Logger) else _own_logger


def wanted_level() -> str | None:
    """From which level on the core is to tell; `None` if nobody would read it."""
    logger = _logger()
    return next((name for name, level in _LEVELS.items() if logger.isEnabledFor(level)), None)


class Level:
    """From which level on the core of one client tells."""

    def __init__(self, native: _native.Client) -> None:
        self._native = native
        self._told: str | None = ""

    def follow(self) -> bool:
        """Has the core tell what is wanted now. Says whether anything is."""
        wanted = wanted_level()
        if wanted != self._told:
            self._told = wanted
            self._native.set_log(wanted)
        return wanted is not None


class Unread(Protocol):
    """A client that has no thread to look at the level, as nobody reads its log."""

    def log_is_read(self) -> None:
        """Somebody reads it now."""
        ...


def tell_of_reader(client: Unread) -> None:
    """Tells the client once somebody reads the log, within `LOOK`."""
    _writer.tell_of_reader(client)


def write(lines: list[_native.Line]) -> None:
    """Has lines written soon. Never waits for a handler."""
    if lines:
        _writer.put(lines)


def catch_up() -> None:
    """Writes what nobody else does: where threads are greenlets, those of a thread without a hub never run."""
    if _writer.is_behind() and _writer.has_no_other() and _context.hub_of_thread() is None:
        _writer.write()


def is_behind() -> bool:
    """Whether lines are still to be written."""
    return _writer.is_behind()


def flush(limit: float = FLUSH_LIMIT) -> None:
    """Waits until everything is written, for so many seconds at the most."""
    if _context.is_hub():
        return  # It may not wait, and those whom it would wait for could not run.
    end = time.monotonic() + limit
    while is_behind() and time.monotonic() < end:
        time.sleep(FLUSH_STEP)


def end(limit: float) -> None:
    """At the end of the process: what is not written within the limit never is. A daemon thread
    that is cut off within `stderr` would abort the interpreter."""
    flush(max(0, min(limit, FLUSH_LIMIT)))
    _writer.end()


class _Writer:
    """A bounded queue of lines, and the thread that writes them."""

    def __init__(self) -> None:
        self._lines: deque[_native.Line] = deque()
        # A signal handler may come back to it in the thread that has it.
        self._mutex = _context.reentrant_lock_of_threads()
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_writing = False
        self._has_ended = False
        # How many lines found no room since the log said so.
        self._unwritten = 0
        self._unread: weakref.WeakSet[Unread] = weakref.WeakSet()

    def put(self, lines: list[_native.Line]) -> None:
        with self._mutex:
            for line in lines:
                if len(self._lines) < self._limit(line):
                    self._lines.append(line)
                else:
                    self._unwritten += 1
        if self.has_no_other():
            if _context.hub_of_thread() is not None:
                sys.modules["gevent"].spawn(self.write)
            return
        self._wake()

    def tell_of_reader(self, client: Unread) -> None:
        with self._mutex:
            self._unread.add(client)
        self._wake()

    def write(self) -> None:
        """Hands lines to the logger until there are none. What a filter raises is not to end it."""
        with self._mutex:
            if self._is_writing:
                return
            self._is_writing = True
        try:
            while (line := self._next()) is not None:
                level, text, fields = line
                with contextlib.suppress(Exception):
                    _logger().log(_LEVELS[level], "%s", text, extra=fields)
        except BaseException:
            self._is_writing = False
            raise

    def has_no_other(self) -> bool:
        """Whether no thread writes, nor may be started."""
        return self._thread is None and _context.threads_are_greenlets()

    def is_behind(self) -> bool:
        return not self._has_ended and (self._is_writing or bool(self._lines))

    def end(self) -> None:
        self._has_ended = True

    def _limit(self, line: _native.Line) -> int:
        level, _, _ = line
        if level in _URGENT:
            return _URGENT_LIMIT
        # Not one here and one there: once there was no room, half of it has to be free.
        return _LIMIT // 2 if self._unwritten else _LIMIT

    def _wake(self) -> None:
        # At the end of the process no thread can be started any more, and nobody reads its log.
        with contextlib.suppress(RuntimeError):
            self._start()
        if self._bell.empty():
            self._bell.put(None)

    def _start(self) -> None:
        with self._mutex:
            if self._thread is not None or self._has_ended:
                return
            thread = self._thread = threading.Thread(target=self._run, name="steadlock-log", daemon=True)
        try:
            thread.start()
        except BaseException:
            self._thread = None
            raise

    def _run(self) -> None:
        try:
            while not self._has_ended:
                with contextlib.suppress(Empty):
                    self._bell.get(timeout=LOOK if self._unread else None)
                self.write()
                self._look_for_reader()
        finally:
            # A handler ended it; the next line starts another.
            self._thread = None

    def _look_for_reader(self) -> None:
        if not self._unread or wanted_level() is None:
            return
        with self._mutex:
            clients = list(self._unread)
            self._unread.clear()
        for client in clients:
            client.log_is_read()

    def _next(self) -> _native.Line | None:
        with self._mutex:
            if self._unwritten and len(self._lines) <= _LIMIT // 2 and not self._has_ended:
                unwritten, self._unwritten = self._unwritten, 0
                text = f"{unwritten} lines of this log were left out: its handlers did not keep up"
                return "warn", text, {"event": "left_out", "unsaid": unwritten}
            if self._lines and not self._has_ended:
                return self._lines.popleft()
            # Before the mutex is free: who puts a line from now on has it written anew.
            self._is_writing = False
            return None


def _start_over() -> None:
    """In the child of a fork, what waits to be written is its parent's."""
    global _writer
    _writer = _Writer()


_own_logger = _OwnLogger()
_writer = _Writer()

os.register_at_fork(after_in_child=_start_over)
