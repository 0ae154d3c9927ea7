"""Sells vouchers from two instances of the service to 200 buyers at once, in three variants, and counts double orders.

    --database NAME   postgresql (the default) or h2, started for the run
    --boot N          Spring Boot 4 (the default) or 3
    --keep            leave the instances of the last variant running until Ctrl-C, so that you can see the page

    REDIS_URL         the Redis or Valkey to use; without it, a redis-server is started for the run, or the embedded
                      server of `steadlock serve` where there is none

Exit status 0 if the lock outside the transaction let no user buy twice, the stock was sold exactly, each of the three
refusals occurred, and both other variants had double orders; else 1.
"""

import argparse
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from buyers import buy, requests
from display import TITLES, Result, Voucher, final_table, find_problems
from processes import Databases, RunError, Service, h2, postgresql, redis_server, service

BUYERS, REQUESTS, STOCK = 200, 2000, 400


@contextlib.contextmanager
def two_instances(variant: str, folder: Path, boot: str, redis: str, databases: Databases) -> Iterator[list[Service]]:
    """Runs two instances that sell in this variant, with a new database."""
    url, user = databases(variant)
    properties = {
        "seckill.variant": variant,
        "seckill.stock": str(STOCK),
        "steadlock.url": redis,
        "steadlock.key-prefix": f"seckill:{secrets.token_hex(4)}:",
        "spring.datasource.url": url,
        "spring.datasource.username": user,
    }
    with contextlib.ExitStack() as stack:
        services = [stack.enter_context(service(f"{variant}-{n}", folder, boot, properties)) for n in (1, 2)]
        for instance in services:
            instance.wait_until_up()
        yield services


def voucher(url: str) -> Voucher:
    with urllib.request.urlopen(f"{url}/vouchers/1", timeout=10) as answer:
        body = json.load(answer)
    return Voucher(body["firstStock"], body["stock"], body["orders"], body["doubleOrders"])


def sell(variant: str, services: list[Service], console: Console) -> Result:
    """Runs all buyers, and checks the result."""
    console.print(f"{TITLES[variant]}: {', '.join(instance.url for instance in services)}")

    def on_progress(done: int) -> None:
        if done % 500 == 0:
            console.print(f"  {done:,} answers", soft_wrap=True)

    answers = buy([instance.url for instance in services], requests(REQUESTS), BUYERS, on_progress)
    found = voucher(services[0].url)
    return Result(variant, answers, found, find_problems(variant, answers, found, REQUESTS))


@contextlib.contextmanager
def redis(folder: Path) -> Iterator[str]:
    if url := os.environ.get("REDIS_URL"):
        yield url
        return
    with redis_server(folder) as url:
        yield url


def run(database: str, boot: str, keep: bool, console: Console) -> bool:
    """Sells in all three variants, shows the results, and returns whether they have no problems."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="seckill-")))
        # The database can run as another user, which must be able to reach its own folder inside this one.
        folder.chmod(0o711)
        url = stack.enter_context(redis(folder))
        databases = stack.enter_context(postgresql(folder) if database == "postgresql" else h2(folder, boot))
        title = f"{REQUESTS:,} requests of {BUYERS} buyers for {STOCK} vouchers, Spring Boot {boot}, {database}"
        console.print(title, soft_wrap=True)
        results = []
        for variant in TITLES:
            with two_instances(variant, folder, boot, url, databases) as services:
                results.append(sell(variant, services, console))
                if variant == "outside":
                    final_table(console, results, title)
                    if keep:
                        console.print(f"the page is at {services[0].url}; Ctrl-C ends it")
                        threading.Event().wait()
        return not any(result.problems for result in results)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=("postgresql", "h2"), default="postgresql")
    parser.add_argument("--boot", choices=("3", "4"), default="4")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    # SIGTERM then ends the run as Ctrl-C does, and no program stays behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        good = run(options.database, options.boot, options.keep, Console(highlight=False))
    except (RunError, OSError, subprocess.SubprocessError) as error:
        print(f"the demo failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
