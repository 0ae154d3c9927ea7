"""The buyers: they send real HTTP requests to both instances at once, and count the replies."""

import collections
import contextlib
import http.client
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

BOUGHT, BUSY, ALREADY, SOLD_OUT = "bought", "busy", "bought already", "sold out"
UNAVAILABLE = 503
Body = dict[str, object]
# The HTTP status of each answer. The body of a refusal has the answer as its title.
STATUS = {201: BOUGHT, 429: BUSY, 409: ALREADY, 410: SOLD_OUT}


@dataclass
class Answers:
    """The number of replies of each kind."""

    counts: collections.Counter[str] = field(default_factory=collections.Counter)
    # The replies "bought already" for an order that only the constraint of the database found.
    found_late: int = 0
    # The requests that were sent again, after a reply 503 with a Retry-After header.
    retries: int = 0
    unexpected: list[str] = field(default_factory=list)
    seconds: float = 0.0
    slowest: float = 0.0


def requests(number: int) -> list[int]:
    """Returns the users of `number` requests.

    Four of five users send one request, and the fifth sends ten at once. The last tenth of the requests repeats the
    users of the first ones.
    """
    again = number // 10
    groups = ([user] * (10 if user % 5 == 0 else 1) for user in itertools.count(1))
    users = list(itertools.islice(itertools.chain.from_iterable(groups), number - again))
    return users + users[:again]


def buy(urls: list[str], users: list[int], buyers: int, on_progress: Callable[[int], object]) -> Answers:
    """Sends a request for each of `users` from `buyers` threads, alternating between the `urls`.

    Calls `on_progress` with the number of replies after each hundred.
    """
    answers, mutex = Answers(), threading.Lock()
    work = iter(enumerate(users))
    together = threading.Barrier(buyers + 1)

    def next_task() -> tuple[int, int] | None:
        with mutex:
            return next(work, None)

    def count(status: int, body: Body, again: int, seconds: float) -> None:
        answer = STATUS.get(status)
        with mutex:
            answers.retries += again
            answers.slowest = max(answers.slowest, seconds)
            if answer is None or (answer != BOUGHT and body.get("title") != answer):
                answers.unexpected.append(f"{status} {body}")
            else:
                answers.counts[answer] += 1
                answers.found_late += body.get("foundLate") is True
            done = answers.counts.total() + len(answers.unexpected)
        if done % 100 == 0:
            on_progress(done)

    def buyer() -> None:
        with contextlib.ExitStack() as stack:
            connections = [stack.enter_context(connection(url)) for url in urls]
            together.wait()
            while (task := next_task()) is not None:
                number, user = task
                started = time.monotonic()
                try:
                    status, body, again = order_until_served(connections[number % len(connections)], user)
                except (OSError, http.client.HTTPException, ValueError) as error:
                    with mutex:
                        answers.unexpected.append(f"user {user}: {error!r}")
                else:
                    count(status, body, again, time.monotonic() - started)

    threads = [threading.Thread(target=buyer, daemon=True) for _ in range(buyers)]
    for thread in threads:
        thread.start()
    together.wait()
    started = time.monotonic()
    for thread in threads:
        thread.join()
    answers.seconds = time.monotonic() - started
    return answers


@contextlib.contextmanager
def connection(url: str) -> Iterator[http.client.HTTPConnection]:
    where = urlsplit(url)
    made = http.client.HTTPConnection(where.hostname or "", where.port, timeout=30)
    try:
        made.connect()
        yield made
    finally:
        made.close()


def order_until_served(service: http.client.HTTPConnection, user: int) -> tuple[int, Body, int]:
    """Repeats the request after a reply 503, up to five times, each time after the delay of its Retry-After header.

    Returns the last status and body, and the number of repetitions.
    """
    for again in range(6):
        status, body, retry_after = send_order(service, user)
        if status != UNAVAILABLE or again == 5:
            break
        time.sleep(retry_after)
    return status, body, again


def send_order(service: http.client.HTTPConnection, user: int) -> tuple[int, Body, float]:
    service.request("POST", "/vouchers/1/orders", headers={"X-User": str(user)})
    answer = service.getresponse()
    return answer.status, json.loads(answer.read()), float(answer.headers.get("Retry-After", 0))
