"""Sells one stock of vouchers by three services in three languages, and checks the result.

    REDIS_URL    the Redis or Valkey to use; without it, the embedded server of `steadlock serve` is started
    --stock N    vouchers to sell (2,000)
    --users N    users who want one; each clicks twice at each service (2,400)

Exit status 0 if every voucher was sold once, each to a different user, every language sold some, and all metrics agree
with the sales; else 1.
"""

import argparse
import contextlib
import json
import os
import queue
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import redis

import agreement
from audit import audit_sales
from display import Display, Tally, final_table
from scrapes import Scrapes

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
STEADLOCK = ROOT / "target" / "release" / "steadlock"
STALL_TIMEOUT = 30.0
KEYS = ("stock", "orders", "sales", "token")
Message = dict[str, float | str]


def commands() -> dict[str, list[str]]:
    """Returns the command that starts each service."""
    java_home = os.environ.get("JAVA_HOME")
    java = str(Path(java_home) / "bin" / "java") if java_home else "java"
    target = HERE / "jvm" / "target"
    return {
        "python": [sys.executable, str(HERE / "python" / "worker.py")],
        "node": ["node", str(HERE / "node" / "service.mjs")],
        "jvm": [java, "-cp", f"{target / 'classes'}{os.pathsep}{target / 'lib'}{os.sep}*", "SeckillService"],
    }


class DemoError(Exception):
    """The run cannot continue. The message has the reason."""


class Service:
    """One service as a child process.

    Each line that it prints becomes an event (language, message). Its end becomes the event (language, None).
    """

    def __init__(self, language: str, command: list[str], env: dict[str, str]) -> None:
        self.language = language
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed by stop)
        self.process = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True
        )

    def listen(self, events: "queue.Queue[tuple[str, Message | None]]") -> None:
        def read() -> None:
            assert self.process.stdout
            for line in self.process.stdout:
                events.put((self.language, json.loads(line)))
            events.put((self.language, None))

        threading.Thread(target=read, daemon=True).start()

    def start(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def close(self) -> None:
        """Closes the standard input of the service, which ends it, and waits for its end."""
        assert self.process.stdin
        self.process.stdin.close()
        try:
            self.process.wait(STALL_TIMEOUT)
        except subprocess.TimeoutExpired:
            raise DemoError(self.status_report()) from None
        if self.process.returncode != 0:
            raise DemoError(self.status_report())

    def status_report(self) -> str:
        """Returns how the service ended, or that it still runs, and its standard error."""
        status = self.process.poll()
        self.errors.seek(0)
        return (
            f"{self.language} {'still runs' if status is None else f'ended with status {status}'}: {self.errors.read()}"
        )

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.errors.close()


@contextlib.contextmanager
def server(scrapes: Scrapes) -> Iterator[str]:
    """Yields the URL of the store: REDIS_URL, or an embedded server with metrics that is stopped at the end."""
    if url := os.environ.get("REDIS_URL"):
        yield url
        return
    if not STEADLOCK.exists():
        raise DemoError("the steadlock command is not built: run ./ci/just demo")
    process = subprocess.Popen(
        [STEADLOCK, "serve", "--port", "0", "--metrics", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout
        # "steadlock: listening on redis://…", "steadlock: metrics on http://…"
        url, metrics = (process.stdout.readline().rpartition(" ")[2].strip() for _ in range(2))
        if not metrics:
            raise DemoError("steadlock serve did not start")
        scrapes.add(agreement.SERVER, metrics)
        yield url
    finally:
        process.terminate()
        process.wait()
        assert process.stdout
        process.stdout.close()


def wait_until_up(store: redis.Redis, deadline: float) -> None:
    while True:
        try:
            store.ping()
            return
        except redis.ConnectionError as error:
            if time.monotonic() > deadline:
                raise DemoError(f"the server does not answer: {error}") from error
            time.sleep(0.02)


def sell(services: list[Service], display: Display, tallies: dict[str, Tally], scrapes: Scrapes) -> float:
    """Starts all services together, shows their progress, and returns the seconds until the last progress."""
    events: queue.Queue[tuple[str, Message | None]] = queue.Queue()
    by_language = {service.language: service for service in services}
    for service in services:
        service.listen(events)
    waiting, running = set(by_language), set(by_language)
    started = finished = time.monotonic()
    while running:
        try:
            language, message = events.get(timeout=max(0.0, finished + STALL_TIMEOUT - time.monotonic()))
        except queue.Empty:
            reports = "\n".join(by_language[language].status_report() for language in sorted(running))
            raise DemoError(f"nothing was sold for {STALL_TIMEOUT:.0f} s\n{reports}") from None
        if message is None:
            by_language[language].process.wait()
            raise DemoError(by_language[language].status_report())
        if "ready" in message:
            scrapes.add(language, str(message["ready"]))
            waiting.discard(language)
            if not waiting:
                started = finished = time.monotonic()
                for service in services:
                    service.start()
        elif "done" in message:
            running.discard(language)
        else:
            tally = Tally(**message)  # type: ignore[arg-type]
            if tally != tallies[language]:
                finished = time.monotonic()
            tallies[language] = tally
            display.update(tallies)
    return finished - started


def texts(store: redis.Redis, key: str) -> dict[str, str]:
    return {str(name): str(value) for name, value in store.hgetall(key).items()}


def run(url: str, stock: int, users: int, scrapes: Scrapes) -> list[str]:
    """Sells the whole stock, shows the result, and returns all problems."""
    store = redis.Redis.from_url(url, decode_responses=True)
    wait_until_up(store, time.monotonic() + 5)
    prefix = f"seckill:{secrets.token_hex(4)}"
    env = os.environ | {"REDIS_URL": url, "SECKILL_PREFIX": prefix, "SECKILL_USERS": str(users)}
    services: list[Service] = []
    tallies = {language: Tally() for language in commands()}
    try:
        store.set(f"{prefix}:stock", stock)
        store.set(f"{prefix}:token", 0)
        with Display(list(commands()), stock) as display:
            address = urlsplit(url)
            display.print(
                f"{stock:,} vouchers, {users:,} users, on {address.hostname or address.path}:{address.port or 6379}"
            )
            for language, command in commands().items():
                services.append(Service(language, command, env))
            seconds = sell(services, display, tallies, scrapes)
            # Each service still renews its shift: the scrapes continue until each client has counted a renewal.
            scrapes.finish(
                lambda pages: not any(agreement.check_scrapes(source, read) for source, read in pages.items())
            )
            for service in services:
                service.close()
        audit = audit_sales(
            stock,
            int(store.get(f"{prefix}:stock") or -1),
            texts(store, f"{prefix}:sales"),
            texts(store, f"{prefix}:orders"),
            list(commands()),
        )
        granted = {language: agreement.granted(scrapes.pages, language) for language in commands()}
        metric_problems = scrapes.problems or agreement.problems(scrapes.pages, tallies, audit.sold)
        final_table(display.console, audit, tallies, seconds, granted, metric_problems)
        return audit.problems + metric_problems
    finally:
        for service in services:
            service.stop()
        with contextlib.suppress(redis.RedisError):
            store.delete(*(f"{prefix}:{key}" for key in KEYS))
        store.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stock", type=int, default=2000)
    parser.add_argument("--users", type=int, default=2400)
    options = parser.parse_args()
    try:
        with contextlib.closing(Scrapes()) as scrapes, server(scrapes) as url:
            return 1 if run(url, options.stock, options.users, scrapes) else 0
    except (DemoError, redis.RedisError) as error:
        print(f"the demo failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
