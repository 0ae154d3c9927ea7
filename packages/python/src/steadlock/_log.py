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
import time
import weakref
from collections import deque
from queue import Empty, SimpleQueue
from typing import Protocol

from steadlock import _context, _native
from steadlock._background import Background
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
    """Takes lines out of the list and has them written soon. Never waits for a handler."""
    if lines:
        _writer.put(lines)


def note(line: _native.Line) -> None:
    """Has a line written at the next `catch_up`. It may be called in the midst of a collection of garbage, where no
    thread can be started."""
    _writer.note(line)


def catch_up() -> None:
    """Writes what nobody else does: where threads are greenlets, those of a thread without a hub never run."""
    if _writer.has_notes():
        _writer.put([])
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
    """A bounded queue of lines, and the thread that writes them.

    It has no lock: a signal handler may come back to any of it, and wait there for a handler of the log that another
    thread runs. So each change is one step of a queue.
    """

    def __init__(self) -> None:
        self._lines: deque[_native.Line] = deque()
        # What nobody was woken for.
        self._notes: list[_native.Line] = []
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._thread = Background(self._run, "steadlock-log")
        self._is_writing = False
        self._has_ended = False
        # How many lines found no room since the log said so.
        self._unwritten = 0
        self._unread: list[weakref.ref[Unread]] = []

    def note(self, line: _native.Line) -> None:
        if len(self._notes) < _URGENT_LIMIT:
            self._notes.append(line)

    def has_notes(self) -> bool:
        return bool(self._notes)

    def put(self, lines: list[_native.Line]) -> None:
        for queue in (self._notes, lines):
            while (line := _taken_from(queue)) is not None:
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
        self._unread.append(weakref.ref(client))
        self._wake()

    def write(self) -> None:
        """Hands lines to the logger until there are none, unless another caller does, whatever filters raise."""
        # Again, if lines came after the last look and before the end of writing: they were left to this one.
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
                        # No `sys.exit` of a handler ends the thread of the log. Elsewhere it may be Ctrl-C.
                        if not self._thread.is_here():
                            raise
            finally:
                self._is_writing = False

    def has_no_other(self) -> bool:
        """Whether no thread writes, nor may be started."""
        return not self._thread.has_begun() and _context.threads_are_greenlets()

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
            if not self._has_ended:
                self._thread.begin()
        if self._bell.empty():
            self._bell.put(None)

    def _run(self) -> None:
        try:
            while not self._has_ended and self._thread.is_known():
                with contextlib.suppress(Empty):
                    self._bell.get(timeout=LOOK if self._unread else None)
                self.write()
                self._look_for_reader()
        finally:
            # It took the bell of the one that goes on.
            if not self._thread.is_here() and (not self._bell.empty() or self._lines):
                self._bell.put(None)

    def _look_for_reader(self) -> None:
        is_read = bool(self._unread) and wanted_level() is not None
        for _ in range(len(self._unread)):
            known = self._unread.pop(0)
            client = known()
            if client is None:
                continue
            if is_read:
                client.log_is_read()
            else:
                self._unread.append(known)

    def _next(self) -> _native.Line | None:
        if self._has_ended:
            return None
        unwritten = self._unwritten
        if unwritten and len(self._lines) <= _LIMIT // 2:
            self._unwritten -= unwritten
            text = f"{unwritten} lines of this log were left out: its handlers did not keep up"
            return "warn", text, {"event": "left_out", "unsaid": unwritten}
        try:
            return self._lines.popleft()
        except IndexError:
            return None


def _taken_from(queue: list[_native.Line]) -> _native.Line | None:
    try:
        return queue.pop(0)
    except IndexError:
        return None  # There is none, or another thread was faster.


def _start_over() -> None:
    """In the child of a fork, what waits to be written is its parent's."""
    global _writer
    _writer = _Writer()


_own_logger = _OwnLogger()
_writer = _Writer()

os.register_at_fork(after_in_child=_start_over)
