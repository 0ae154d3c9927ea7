"""Tests that no message, representation, cause or traceback repeats a secret that was passed in a wrong place. The
secrets are in `ci/secrets/shapes.json`.
"""

from __future__ import annotations

import asyncio
import json
import traceback
import warnings
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import steadlock
from steadlock import aio

FILE = Path(__file__).parents[3] / "ci" / "secrets" / "shapes.json"
SHAPES: dict[str, Any] = json.loads(FILE.read_text())
MADE = {"urls": "url", "names": "name"}


class Speaking:
    """An object with the secret as each of its texts."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return self.text


WRAPPERS: list[Callable[[str], Any]] = [
    lambda text: text,
    lambda text: text + "\udcff",
    str.encode,
    lambda text: [text],
    lambda text: (text,),
    lambda text: (text, text),
    lambda text: {text: text},
    lambda text: {"password": text},
    Path,
    Speaking,
    lambda text: [Speaking(text), text.encode(), 5],
]


def everything(error: BaseException) -> Iterator[str]:
    """Yields everything that a program, a log or a report can print of an error and its causes."""
    yield "".join(traceback.format_exception(error))
    seen: list[BaseException] = []
    todo: list[BaseException | None] = [error]
    while todo:
        one = todo.pop()
        if one is None or one in seen:
            continue
        seen.append(one)
        yield f"{one} {one!r} {one!s} {one.args!r} {vars(one)!r} {getattr(one, '__notes__', None)!r}"
        todo += [one.__cause__, one.__context__]


class Listener:
    """Runs the calls under test, and collects their texts."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def __call__(self, call: Callable[[], Any]) -> Any:
        try:
            result = call()
        except Exception as error:
            self.said += everything(error)
            return None
        self.said.append(f"{result!r} {result}")
        return result


def connect(listen: Listener, **given: Any) -> None:
    given.setdefault("url", "memory://")
    given.setdefault("connect_timeout", 1)
    listen(lambda: steadlock.connect(**given))

    async def enter() -> None:
        listen(lambda: aio.connect(**given))
        async with aio.connect(**given) as client:
            listen(lambda: client)

    listen(lambda: asyncio.run(enter()))


def redlock(listen: Listener, urls: Any) -> None:
    listen(lambda: steadlock.redlock(urls, connect_timeout=1))

    async def enter() -> None:
        async with aio.redlock(urls, connect_timeout=1):
            pass

    listen(lambda: asyncio.run(enter()))


def use(listen: Listener, make: Callable[[Any], Any]) -> None:
    """Acquires a lock, and makes the calls that can fail."""

    def one(client: steadlock.Client, side: Any) -> None:
        listen(side.release)
        listen(lambda: side.try_acquire(lease=0))
        listen(lambda: side.try_acquire())
        listen(lambda: side.lease)
        listen(side.release)
        listen(side.release)
        with steadlock.connect("memory://") as other, side:
            listen(lambda: other.force_release(side))
            listen(lambda: client.force_release(side))

    def threads() -> None:
        with steadlock.connect("memory://") as client:
            lock = listen(lambda: make(client))
            if lock is None:
                return
            for side in (getattr(lock, "read", lock), getattr(lock, "write", lock)):
                listen(partial(one, client, side))
        listen(lambda: side.try_acquire())

    async def tasks() -> None:
        async with aio.connect("memory://") as client:
            lock = listen(lambda: make(client))
            if lock is None:
                return
            side = getattr(lock, "write", lock)
            async with side as lease:
                listen(lambda: lease)
                listen(lambda: side)
                await client.force_release(side)
                await side.acquire(1, 0.01) if isinstance(side, aio.Semaphore) else await side.acquire(timeout=0.01)

    listen(threads)
    listen(lambda: asyncio.run(tasks()))


def lock_of(name: str) -> Callable[[Any], Any]:
    return lambda client: client.lock(name)


def decorate(client: steadlock.Client, template: Any) -> Callable[..., object]:
    @client.synchronized(template)
    def guarded(secret: int = 1) -> int:
        return secret

    return guarded


def synchronized(listen: Listener, name: Any) -> None:
    def run() -> None:
        with steadlock.connect("memory://") as client:
            templates = [name]
            if isinstance(name, str):
                templates += [name + "{secret}", name.replace("@", "{x}@"), name + "{"]
            for template in templates:
                guarded = listen(partial(decorate, client, template))
                if guarded is not None:
                    listen(guarded)

    listen(run)


def client_call(call: Callable[[steadlock.Client, Any], Any]) -> Callable[[Listener, Any], None]:
    def attempt(listen: Listener, given: Any) -> None:
        with steadlock.connect("memory://") as client:
            listen(lambda: call(client, given))

    return attempt


def from_environment(listen: Listener, url: Any) -> None:
    if isinstance(url, str):
        with pytest.MonkeyPatch.context() as patch:
            try:
                patch.setenv("STEADLOCK_URL", url)
            except (ValueError, UnicodeEncodeError):
                return
            connect(listen, url=None)


PLACES: dict[str, Callable[[Listener, Any], object]] = {
    "connect": lambda listen, given: connect(listen, url=given),
    "connect by STEADLOCK_URL": from_environment,
    "connect to a list": lambda listen, given: connect(listen, url=[given]),
    "redlock, one of the primaries": lambda listen, given: redlock(listen, ["memory://a", given, "memory://b"]),
    "redlock of one text": redlock,
    "lease of a client": lambda listen, given: connect(listen, lease=given),
    "timeout of a client": lambda listen, given: connect(listen, command_timeout=given),
    "retry interval": lambda listen, given: [connect(listen, retry_interval=both) for both in (given, (1, given))],  # type: ignore[func-returns-value]
    "prefix": lambda listen, given: connect(listen, key_prefix=given),
    "a file of authorities": lambda listen, given: connect(listen, url="rediss://127.0.0.1:1", tls_ca_file=given),
    "a file of a certificate": lambda listen, given: connect(
        listen, url="rediss://127.0.0.1:1", tls_cert_file=given, tls_key_file=FILE
    ),
    "a file of a key": lambda listen, given: connect(
        listen, url="rediss://127.0.0.1:1", tls_cert_file=FILE, tls_key_file=given
    ),
    "a URL in a file's place": lambda listen, given: connect(listen, url="rediss://127.0.0.1:1", tls_ca_file=given),
    "a server's name": lambda listen, given: connect(listen, url="rediss://127.0.0.1:1", tls_server_name=given),
    "an address map": lambda listen, given: [
        connect(listen, url="redis+cluster://127.0.0.1:1", address_map=addresses)  # type: ignore[func-returns-value]
        for addresses in ({given: "h:1"} if isinstance(given, Hashable) else {}, {"h:1": given}, given)
    ],
    "name of a lock": lambda listen, given: use(listen, lock_of(given)),
    "name of a mutex": lambda listen, given: use(listen, lambda client: client.mutex(given, wait=0)),
    "name of a fair lock": lambda listen, given: use(listen, lambda client: client.fair_lock(given)),
    "name of a read-write lock": lambda listen, given: use(
        listen, lambda client: client.read_write_lock(given, wait=0)
    ),
    "name of a semaphore": lambda listen, given: use(listen, lambda client: client.semaphore(given, 1, wait=0)),
    "name of several locks": lambda listen, given: use(
        listen, lambda client: client.multi_lock([client.lock(given), client.lock("other")], wait=0)
    ),
    "name of a function's lock": synchronized,
    "wait": client_call(lambda client, given: client.lock("name", wait=given)),
    "limit of a semaphore": client_call(lambda client, given: client.semaphore("name", given).acquire()),
    "permits": client_call(lambda client, given: client.semaphore("name", 1).acquire(given)),
    "a lock among several": client_call(lambda client, given: client.multi_lock([given])),
    "a lock to take away": client_call(lambda client, given: client.force_release(given)),
    "an argument that is not known": lambda listen, given: connect(listen, password=given),
}


def shapes(given: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the texts for one argument, each with the parts that must not appear."""
    if given == "keys":
        yield from ((key["text"], ["hunter2"]) for key in SHAPES["keys"])
        return
    for shape in SHAPES[given]:
        for secret in SHAPES["secrets"]:
            if shape.get("unless", "\0") not in secret["raw"]:
                made = shape[MADE[given]].replace("{raw}", secret["raw"]).replace("{encoded}", secret["encoded"])
                yield made, secret["marks"]


def test_every_place_of_the_table_is_tried() -> None:
    assert list(PLACES) == [place["place"] for place in SHAPES["places"] if "python" not in place.get("not in", {})]


@pytest.mark.parametrize("place", PLACES)
def test_no_secret_is_repeated_in_whatever_place_it_was_given(place: str) -> None:
    (given,) = [one["given"] for one in SHAPES["places"] if one["place"] == place]
    # For an argument that is not parsed as a URL, every 29th text is enough, in every type.
    is_read = place.startswith(("connect", "redlock, "))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for number, (text, marks) in enumerate(shapes(given)):
            is_turn = number % 29 == 0 or given == "keys"
            if given == "urls" and not is_read and not is_turn:
                continue
            kinds = WRAPPERS if is_turn else WRAPPERS[:1]
            for wrap in kinds:
                listen = Listener()
                PLACES[place](listen, wrap(text))
                said = "".join(listen.said)
                assert not any(mark in said for mark in marks), f"{wrap(text)!r}: {said}"
    assert "hunter2" not in "".join(str(one.message) for one in warned)
