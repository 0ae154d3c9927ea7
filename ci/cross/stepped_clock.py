"""A redis-server whose clock a test sets, by stepped_clock.c before it. Linux only."""

import mmap
import os
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis

from programs import Server
from redis_server import redis_process

SOURCE = Path(__file__).with_suffix(".c")
_MICROSECONDS = struct.Struct("q")
# Reading a clock twice, and rates that are corrected meanwhile, may make so much.
_ROUNDING = 0.01


def build(folder: Path) -> Path:
    """The library, compiled into that folder."""
    library = folder / "stepped_clock.so"
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", str(library), str(SOURCE)], check=True)
    return library


@dataclass(frozen=True)
class SteppedServer(Server):
    """A server whose clock goes as the machine's does, until it is stepped."""

    _added: mmap.mmap

    def step(self, seconds: float) -> None:
        """Puts its clock forward, or back if below 0, and makes sure that it went there."""
        asked = time.monotonic()
        before = self.time()
        read = time.monotonic()
        (added,) = _MICROSECONDS.unpack(self._added[:])
        self._added[:] = _MICROSECONDS.pack(added + round(seconds * 1_000_000))
        asked_again = time.monotonic()
        moved = self.time() - before
        passed = time.monotonic() - asked
        assert asked_again - read - _ROUNDING <= moved - seconds <= passed + _ROUNDING, f"it moved by {moved} s"


@contextmanager
def stepped_server(library: Path, folder: Path) -> Iterator[SteppedServer]:
    """Yields it once it answers, its clock right. What was added stands in a file of that folder."""
    path = folder / "added"
    path.write_bytes(_MICROSECONDS.pack(0))
    environment = {**os.environ, "LD_PRELOAD": str(library), "STEPPED_CLOCK": str(path)}
    with (
        path.open("r+b") as file,
        mmap.mmap(file.fileno(), _MICROSECONDS.size) as added,
        redis_process(environment=environment) as process,
        redis.Redis.from_url(process.url, decode_responses=True) as store,
    ):
        yield SteppedServer(process.url, store, added)
