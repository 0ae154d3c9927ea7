"""Metrics of several processes on one page: the workers of gunicorn or uvicorn, or Celery's prefork pool.

    client = steadlock.connect("redis://localhost", metrics=True)
    metrics = SharedMetrics(client, "/run/shop/metrics")

    def page() -> str:
        return metrics.text()

Each worker can answer for all workers. This module needs no package of Prometheus.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import secrets
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Generator
from fcntl import LOCK_EX, lockf
from os import PathLike
from pathlib import Path
from typing import Any

from steadlock import _log
from steadlock._client import ClientBase
from steadlock._daemon_thread import start_uninterrupted
from steadlock._not_copyable import NotCopyable
from steadlock._settings import Duration, milliseconds
from steadlock._shown import type_of
from steadlock.errors import InvalidArgumentError, MisconfiguredError

__all__ = ["SharedMetrics"]

_SUFFIX = ".prom"
_ENDED = "ended"
_FOLDED = "# folded: "
"""The start of the first line in the file of ended processes. The line names the files that were added last."""
_PROCESS_FILE = re.compile(rf"(?P<pid>\d+)-[0-9a-f]{{16}}{re.escape(_SUFFIX)}")
_LONGEST, _STALE = 60.0, 180.0
"""The longest interval between two writes of a process, and the age at which its file counts as stale, both in seconds.
The process of a stale file has stopped, or its process id belongs to another process by now.
"""
_SERVER_GAUGES = frozenset({"steadlock_fair_queue"})
"""Gauges of the server, which have the same value in every process."""


class SharedMetrics(NotCopyable):
    """The metrics of a client in this process and in all other processes that share a folder.

    Make this object where the client is made, which can be before a `fork`. Each process writes its counts to its own
    file in the folder: every few seconds in a daemon thread, and at its end. Counters and histograms are summed over
    all processes that ever wrote, so that they never fall when a worker is replaced. Gauges are summed over the living
    processes. For `steadlock_fair_queue`, which every process reads from the server, the highest value counts.
    """

    _copy_advice = "make one in each process, for the client there"

    def __init__(
        self,
        client: ClientBase[Any, Any, Any, Any, Any, Any, Any],
        folder: str | PathLike[str],
        *,
        every: Duration = 5.0,
    ) -> None:
        """`client` is a client for threads or for asyncio, made with `metrics=True`; one folder can serve several
        clients. `folder` is made if it is missing. It belongs to one program on one machine: empty it before the
        program starts, and use a separate folder for each container. A process that runs no `atexit` functions, for
        example because it is killed, loses the counts of its last `every` seconds (0.1 s to 60 s).

        Raises `InvalidArgumentError` for a client without metrics or an `every` out of its range, `MisconfiguredError`
        if the folder is not writable.
        """
        if not isinstance(client, ClientBase):
            raise TypeError(f"SharedMetrics: expected a client, not a {type_of(client)}")
        if not isinstance(folder, str | PathLike):
            raise TypeError(f"folder is a str or a path, not a {type_of(folder)}")
        self._every = milliseconds(every) / 1_000
        if not 0.1 <= self._every <= _LONGEST:
            raise InvalidArgumentError("metrics: every is out of range; give 0.1 s to 60 s", operation="inspect")
        self._client = client
        self._folder = Path(folder)
        client.metrics()
        with _file_errors(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
        self._start()
        _all.add(self)

    def text(self) -> str:
        """Returns the metrics of all processes, in Prometheus' text format: of this process until now, of each other
        process until its last write.

        Raises `MisconfiguredError` if the folder cannot be read or written, or if a file in it does not contain
        metrics.
        """
        with _file_errors(self._folder):
            self._write()
            with _locked(self._folder) as is_outermost:
                ended = self._fold(is_outermost, lambda path: not _is_running(_pid_of(path)))
                processes = [(path, _read(path), _is_fresh(path)) for path in self._process_files()]
        merged = _Merged()
        merged.add(ended, with_gauges=False)
        for path, text, is_fresh in processes:
            try:
                merged.add(text, with_gauges=is_fresh)
            except ValueError as error:
                raise _misconfigured(f"the file {path} does not contain metrics; empty the folder") from error
        return merged.text()

    def close(self) -> None:
        """Writes the metrics for the last time, and stops. Idempotent. The end of the process does the same."""
        self._stop.set()
        with contextlib.suppress(OSError):
            self._write()

    def _start(self) -> None:
        """Starts to write. Called for a new object, and in the child of a fork, which counts from zero."""
        self._path = self._folder / f"{os.getpid()}-{secrets.token_hex(8)}{_SUFFIX}"
        self._stop = threading.Event()
        self._written = ""
        with _file_errors(self._folder):
            self._write()
            # An earlier process with the same process id has ended.
            ours = {self._path, *(metrics._path for metrics in list(_all))}
            with _locked(self._folder) as is_outermost:
                self._fold(is_outermost, lambda path: _pid_of(path) == os.getpid() and path not in ours)
        start_uninterrupted(
            threading.Thread(target=_keep_writing, args=(weakref.ref(self), self._stop, self._every), daemon=True)
        )

    def _write(self) -> None:
        text = self._client.metrics()
        if text == self._written and self._path.exists():
            with contextlib.suppress(FileNotFoundError):
                os.utime(self._path)
            return
        _replace(self._path, text)
        self._written = text

    def _process_files(self) -> list[Path]:
        """Returns the files of single processes."""
        return sorted(path for path in self._folder.iterdir() if _PROCESS_FILE.fullmatch(path.name))

    def _fold(self, is_outermost: bool, has_ended: Callable[[Path], bool]) -> str:
        """Adds the counts of processes that have ended to the file of ended processes, and removes their files. Returns
        the content of that file. A call that is not `is_outermost` interrupts another one, and only reads that file.

        If a process is killed during this, nothing is counted twice: the file of ended processes names the files that
        it contains, and a later call only removes those.
        """
        ended = self._folder / f"{_ENDED}{_SUFFIX}"
        text = _read(ended)
        if not is_outermost:
            return text
        first = text.partition("\n")[0]
        folded = first.removeprefix(_FOLDED).split() if first.startswith(_FOLDED) else []
        for name in folded:
            (self._folder / name).unlink(missing_ok=True)
        added = [path for path in self._process_files() if has_ended(path)]
        if not added:
            return text
        merged = _Merged()
        merged.add(text, with_gauges=False)
        for path in added:
            with contextlib.suppress(ValueError):
                merged.add(_read(path), with_gauges=False)
        text = f"{_FOLDED}{' '.join(path.name for path in added)}\n{merged.text()}"
        _replace(ended, text)
        for path in added:
            path.unlink(missing_ok=True)
        return text


class _Merged:
    """Merges several texts of metrics into one."""

    def __init__(self) -> None:
        self._headers: dict[str, list[str]] = {}
        self._types: dict[str, str] = {}
        self._samples: dict[str, dict[str, float]] = {}

    def add(self, text: str, *, with_gauges: bool) -> None:
        """Adds a text. Raises `ValueError` if it does not contain metrics."""
        family = ""
        for line in text.splitlines():
            if line.startswith(("# HELP ", "# TYPE ")):
                _, keyword, family, value = line.split(" ", 3)
                headers = self._headers.setdefault(family, [])
                if line not in headers:
                    headers.append(line)
                if keyword == "TYPE":
                    self._types[family] = value
            elif line and not line.startswith("#"):
                sample, _, value = line.rpartition(" ")
                if not family or not sample.startswith(family):
                    raise ValueError(line)
                self._count(family, sample, float(value), with_gauges)

    def _count(self, family: str, sample: str, value: float, with_gauges: bool) -> None:
        is_gauge = self._types.get(family) == "gauge"
        if is_gauge and not with_gauges:
            return
        samples = self._samples.setdefault(family, {})
        if is_gauge and family in _SERVER_GAUGES:
            samples[sample] = max(value, samples.get(sample, value))
        else:
            samples[sample] = samples.get(sample, 0) + value

    def text(self) -> str:
        lines: list[str] = []
        for family, headers in self._headers.items():
            lines += headers
            lines += [f"{sample} {_number(value)}" for sample, value in self._samples.get(family, {}).items()]
        return "".join(f"{line}\n" for line in lines)


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


def _keep_writing(find: weakref.ref[SharedMetrics], stop: threading.Event, every: float) -> None:
    has_failed = False
    while not stop.wait(every):
        metrics = find()
        if metrics is None or metrics._stop is not stop:
            return
        try:
            metrics._write()
            has_failed = False
        except OSError as error:
            if not has_failed:
                text = f"the metrics of this process cannot be written: {error.strerror or type_of(error)}"
                _log.write([("warn", text, {"event": "metrics_unwritten"})])
            has_failed = True
        del metrics


def _pid_of(path: Path) -> int:
    found = _PROCESS_FILE.fullmatch(path.name)
    return int(found["pid"]) if found else 0


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        # The process belongs to another user, or the number is too large for a process id and the file stays.
        return True
    return True


def _is_fresh(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime < _STALE
    except FileNotFoundError:
        return False


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def _replace(path: Path, text: str) -> None:
    """Writes the file so that a reader never sees a part of it."""
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


class _FoldState:
    """The state of folding in this process: one thread folds, and its signal handler can enter again."""

    def __init__(self) -> None:
        self.mutex = threading.RLock()
        self.depth = 0


@contextlib.contextmanager
def _locked(folder: Path) -> Generator[bool]:
    """Locks folding for one process, and one thread in it. Yields whether this is the outermost entry of the thread."""
    folding = _folding
    # Uses a POSIX lock, because the child of a fork does not inherit it, as it would inherit a lock of `flock`.
    with folding.mutex, contextlib.nullcontext() if folding.depth else open(folder / "lock", "w") as file:
        if file is not None:
            lockf(file, LOCK_EX)
        folding.depth += 1
        try:
            yield folding.depth == 1
        finally:
            folding.depth -= 1


@contextlib.contextmanager
def _file_errors(folder: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or type_of(error)
        raise _misconfigured(
            f"the folder {folder} cannot be used: {reason}; give one that can be written to"
        ) from error


def _misconfigured(text: str) -> MisconfiguredError:
    return MisconfiguredError(f"metrics: {text}", operation="inspect")


def _after_fork() -> None:
    global _folding
    _folding = _FoldState()
    for metrics in list(_all):
        # A fork must not raise in the program: neither an unusable folder nor a refused thread.
        with contextlib.suppress(MisconfiguredError, RuntimeError):
            metrics._start()


def _at_exit() -> None:
    for metrics in list(_all):
        metrics.close()


_all: weakref.WeakSet[SharedMetrics] = weakref.WeakSet()
_folding = _FoldState()
os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
