"""Records the commands of other lock libraries by MONITOR, step by step. The benchmark then sends the same commands."""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import redis
from meter import Arguments
from monitor import Command, Monitor
from redis.lock import Lock
from scenario import Scenario, Step

BENCH = Path(__file__).resolve().parents[1]
# As long as the names of scenario.py, which replace it in the recorded commands.
NAME = "bench:999999"
# Milliseconds. Redisson is recorded with WATCHDOG, so that it renews soon; LEASE replaces it in the commands.
WATCHDOG, LEASE = "3001", "30000"
STEPS = ("acquire", "renew", "refused", "release")

Do = Callable[[str], None]


def scenario(port: int, name: str) -> Scenario:
    """Returns the scenario of a library and a kind of lock, such as `Redisson fair`."""
    library, kind = name.split()
    url = f"redis://127.0.0.1:{port}"
    if library == "redis-py":
        return _recorded(port, _redis_py(port), ("acquire", "renew", "extend", "refused", "release"))
    if library == "redis-semaphore":
        return _of_program(port, ["node", str(BENCH / "node" / "steps.mjs"), kind, url, NAME], STEPS)
    java_home = os.environ.get("JAVA_HOME")
    java = str(Path(java_home) / "bin" / "java") if java_home else "java"
    target = BENCH / "jvm" / "target"
    program = [java, "-cp", f"{target / 'classes'}{os.pathsep}{target / 'lib'}{os.sep}*", "Steps", kind, url, NAME]
    # A reader refuses no other reader, so `read` has no refused step.
    return _of_program(port, program, ("acquire", "renew", "release") if kind == "read" else STEPS)


def _redis_py(port: int) -> Do:
    store = redis.Redis(port=port)
    first, second = (Lock(store, NAME, timeout=int(LEASE) // 1000) for _ in range(2))
    steps: Mapping[str, Callable[[], object]] = {
        "acquire": lambda: first.acquire(blocking=False),
        "renew": first.reacquire,
        "extend": lambda: first.extend(1),
        "refused": lambda: second.acquire(blocking=False),
        "release": first.release,
    }
    return lambda step: (steps[step](), None)[1]


def _of_program(port: int, program: Sequence[str], steps: Sequence[str]) -> Scenario:
    """Records a program that reads the names of steps and prints `done` after each."""
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        sent, received = process.stdin, process.stdout
        assert sent
        assert received

        def expect(line: str) -> None:
            if received.readline().strip() != line:
                raise RuntimeError(f"{' '.join(program)} did not print {line}")

        def do(step: str) -> None:
            sent.write(f"{step}\n")
            sent.flush()
            expect("done")

        expect("ready")
        found = _recorded(port, do, steps)
        sent.close()
    return found


def _recorded(port: int, do: Do, steps: Sequence[str]) -> Scenario:
    # The first run is not recorded, because libraries load their scripts in it.
    for step in steps:
        do(step)
    found = []
    renewals: list[tuple[str, ...]] = []
    with Monitor(port) as monitor:
        for step in steps:
            before = len(monitor.commands())
            do(step)
            sent = [_words(command) for command in monitor.commands()[before:] if _is_of_lock(command)]
            # A renewal timer may have fired twice, or again in a later step: its commands count only once.
            sent = [words for words in dict.fromkeys(sent) if words not in renewals]
            if not sent:
                raise RuntimeError(f"{step}: nothing was sent")
            if step == "renew":
                renewals = sent
            found.append(Step(step, _for_name(sent)))
    return Scenario(found, _record(found[0]))


def _record(acquire: Step) -> Callable[[str], str]:
    """Returns a function for the key of a lock's record: the first word of the acquire command with the lock's name."""
    return lambda name: next(str(word) for word in acquire.commands(name)[0] if name in str(word))


def _is_of_lock(command: Command) -> bool:
    return not command.by_script and any(NAME in word for word in command.arguments)


def _words(command: Command) -> tuple[str, ...]:
    # MONITOR escapes characters like C.
    plain = [word.encode().decode("unicode_escape") for word in command.arguments]
    return tuple(LEASE if word == WATCHDOG else word for word in plain)


def _for_name(sent: Sequence[Sequence[str]]) -> Callable[[str], Sequence[Arguments]]:
    return lambda name: [[word.replace(NAME, name) for word in words] for words in sent]
