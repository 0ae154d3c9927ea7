"""Starts the contenders and talks to them."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import redis

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CONTENDERS = HERE / "contenders"
JARS = ROOT / "examples" / "seckill" / "jvm" / "target" / "lib"


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


PROGRAMS: dict[str, list[str]] = {
    "rust": [str(ROOT / "target" / "release" / "leasehold-contender")],
    "python-threads": [sys.executable, str(CONTENDERS / "threads.py")],
    "python-asyncio": [sys.executable, str(CONTENDERS / "tasks.py")],
    "node": ["node", str(CONTENDERS / "node.mjs")],
    "jvm": [java(), "-cp", f"{JARS}{os.sep}*", str(CONTENDERS / "Contender.java")],
}
LANGUAGES = list(PROGRAMS)


@dataclass(frozen=True)
class Server:
    """Where the redis-server is, and a connection to it."""

    url: str
    store: "redis.Redis"


class Contender:
    """One contender as a child process."""

    def __init__(self, language: str, command: str, server: Server, name: str, *numbers: int) -> None:
        arguments = [command, server.url, name, *map(str, numbers)]
        self.language = language
        self.process = subprocess.Popen(
            PROGRAMS[language] + arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def expect(self, line: str) -> None:
        assert self.read() == line, f"{self.language} did not say {line!r}"

    def read(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def go(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def finish(self) -> None:
        assert self.process.wait(timeout=60) == 0, f"{self.language} failed"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def contend(contenders: list[Contender]) -> list[str]:
    """Starts them together, waits for all, and returns what each said last."""
    try:
        for contender in contenders:
            contender.expect("ready")
        for contender in contenders:
            contender.go()
        said = [contender.read() for contender in contenders]
        for contender in contenders:
            contender.finish()
        return said
    finally:
        for contender in contenders:
            contender.kill()
