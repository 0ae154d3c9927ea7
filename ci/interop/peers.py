"""Starts the peers and sends them commands. See README.md for the protocol."""

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
JVM = HERE / "jvm" / "target"
CLASS_PATH = f"{JVM / 'classes'}{os.pathsep}{JVM / 'lib'}{os.sep}*"


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


PROGRAMS: dict[str, list[str]] = {
    "python": [sys.executable, str(HERE / "python" / "peer.py")],
    "node": ["node", str(HERE / "node" / "peer.mjs")],
    "jvm": [java(), "-XX:TieredStopAtLevel=1", "-cp", CLASS_PATH, "Peer"],
}


@dataclass(frozen=True)
class Library:
    """A lock library. On the server, its lock `NAME` has the key `prefix + NAME`."""

    name: str
    language: str
    prefix: str = ""
    #: Whether its unlock reports that the record was not its own any more.
    reports_lost_release: bool = True

    def __str__(self) -> str:
        return f"{self.name}({self.language})" if self.name.startswith("steadlock") else self.name


class Peer:
    """A process that runs one library."""

    def __init__(self, library: Library, url: str) -> None:
        self.library = library
        self.process = subprocess.Popen(
            [*PROGRAMS[library.language], library.name, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def send(self, command: str, name: str, *numbers: int) -> None:
        """Sends a command and does not wait for its answer."""
        assert self.process.stdin
        print(command, name, *numbers, file=self.process.stdin, flush=True)

    def answer(self, within: float = 30) -> str:
        try:
            answer = self._answers.get(timeout=within)
        except queue.Empty:
            raise AssertionError(f"{self.library} did not answer within {within} s") from None
        assert not answer.startswith("error"), f"{self.library}: {answer}"
        return answer

    def call(self, command: str, name: str, *numbers: int) -> str:
        self.send(command, name, *numbers)
        return self.answer()

    def has_not_answered(self) -> bool:
        """Whether the peer has not answered yet."""
        return self._answers.empty()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def _listen(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._answers.put(line.rstrip("\n"))
        self._answers.put("error: the process has ended")


@contextlib.contextmanager
def peers(url: str) -> Iterator[Callable[[Library], Peer]]:
    """Yields a function that returns a library's peer, started at the first call. All peers are stopped at the end."""
    running: dict[Library, Peer] = {}

    def start(library: Library) -> Peer:
        if library not in running:
            running[library] = Peer(library, url)
            assert running[library].answer(within=60) == "ready"
        return running[library]

    try:
        yield start
    finally:
        for peer in running.values():
            peer.stop()
