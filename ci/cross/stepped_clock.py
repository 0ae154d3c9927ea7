"""A redis-server whose clock a test can set, by preloading stepped_clock.c. Linux only."""

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
# Seconds by which two readings may differ, as the rates of clocks are corrected in between.
_ROUNDING = 0.01


def build(folder: Path) -> Path:
    """Compiles the library into a folder, and returns its path."""
    library = folder / "stepped_clock.so"
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", str(library), str(SOURCE)], check=True)
    return library


@dataclass(frozen=True)
class SteppedServer(Server):
    """A server whose clock is the machine's until a test steps it."""

    _added: mmap.mmap

    def step(self, seconds: float) -> None:
        """Sets the clock forward, or back if negative, and checks that it has changed by that much."""
        start = time.monotonic()
        before = self.time()
        read = time.monotonic()
        (added,) = _MICROSECONDS.unpack(self._added[:])
        self._added[:] = _MICROSECONDS.pack(added + round(seconds * 1_000_000))
        changed = time.monotonic()
        moved = self.time() - before
        passed = time.monotonic() - start
        assert changed - read - _ROUNDING <= moved - seconds <= passed + _ROUNDING, f"the clock moved by {moved} s"


@contextmanager
def stepped_server(library: Path, folder: Path) -> Iterator[SteppedServer]:
    """Starts a server with the right time, and yields it once it answers. A file in `folder` has the clock's offset."""
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
