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
FIELDS = {"urls": "url", "names": "name"}


class SecretInTexts:
    """An object whose every text is the secret."""

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
    SecretInTexts,
    lambda text: [SecretInTexts(text), text.encode(), 5],
]


def printed_texts(error: BaseException) -> Iterator[str]:
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


class TextCollector:
    """Runs the calls under test, and collects their texts."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, call: Callable[[], Any]) -> Any:
        try:
            result = call()
        except Exception as error:
            self.texts += printed_texts(error)
            return None
        self.texts.append(f"{result!r} {result}")
        return result


def connect(collect: TextCollector, **argument: Any) -> None:
    argument.setdefault("url", "memory://")
    argument.setdefault("connect_timeout", 1)
    collect(lambda: steadlock.connect(**argument))

    async def enter() -> None:
        collect(lambda: aio.connect(**argument))
        async with aio.connect(**argument) as client:
            collect(lambda: client)

    collect(lambda: asyncio.run(enter()))


def redlock(collect: TextCollector, urls: Any) -> None:
    collect(lambda: steadlock.redlock(urls, connect_timeout=1))

    async def enter() -> None:
        async with aio.redlock(urls, connect_timeout=1):
            pass

    collect(lambda: asyncio.run(enter()))


def use(collect: TextCollector, make: Callable[[Any], Any]) -> None:
    """Acquires a lock, and makes the calls that can fail."""

    def use_side(client: steadlock.Client, side: Any) -> None:
        collect(side.release)
        collect(lambda: side.try_acquire(lease=0))
        collect(lambda: side.try_acquire())
        collect(lambda: side.lease)
        collect(side.release)
        collect(side.release)
        with steadlock.connect("memory://") as other, side:
            collect(lambda: other.force_release(side))
            collect(lambda: client.force_release(side))

    def threads() -> None:
        with steadlock.connect("memory://") as client:
            lock = collect(lambda: make(client))
            if lock is None:
                return
            for side in (getattr(lock, "read", lock), getattr(lock, "write", lock)):
                collect(partial(use_side, client, side))
        collect(lambda: side.try_acquire())

    async def tasks() -> None:
        async with aio.connect("memory://") as client:
            lock = collect(lambda: make(client))
            if lock is None:
                return
            side = getattr(lock, "write", lock)
            async with side as lease:
                collect(lambda: lease)
                collect(lambda: side)
                await client.force_release(side)
                await side.acquire(1, 0.01) if isinstance(side, aio.Semaphore) else await side.acquire(timeout=0.01)

    collect(threads)
    collect(lambda: asyncio.run(tasks()))


def lock_of(name: str) -> Callable[[Any], Any]:
    return lambda client: client.lock(name)


def decorate(client: steadlock.Client, template: Any) -> Callable[..., object]:
    @client.synchronized(template)
    def guarded(secret: int = 1) -> int:
        return secret

    return guarded


def synchronized(collect: TextCollector, name: Any) -> None:
    def run() -> None:
        with steadlock.connect("memory://") as client:
            templates = [name]
            if isinstance(name, str):
                templates += [name + "{secret}", name.replace("@", "{x}@"), name + "{"]
            for template in templates:
                guarded = collect(partial(decorate, client, template))
                if guarded is not None:
                    collect(guarded)

    collect(run)


def client_call(call: Callable[[steadlock.Client, Any], Any]) -> Callable[[TextCollector, Any], None]:
    def attempt(collect: TextCollector, argument: Any) -> None:
        with steadlock.connect("memory://") as client:
            collect(lambda: call(client, argument))

    return attempt


def from_environment(collect: TextCollector, url: Any) -> None:
    if isinstance(url, str):
        with pytest.MonkeyPatch.context() as patch:
            try:
                patch.setenv("STEADLOCK_URL", url)
            except (ValueError, UnicodeEncodeError):
                return
            connect(collect, url=None)


PLACES: dict[str, Callable[[TextCollector, Any], object]] = {
    "connect": lambda collect, argument: connect(collect, url=argument),
    "connect by STEADLOCK_URL": from_environment,
    "connect to a list": lambda collect, argument: connect(collect, url=[argument]),
    "redlock, one of the primaries": lambda collect, argument: redlock(collect, ["memory://a", argument, "memory://b"]),
    "redlock of one text": redlock,
    "lease of a client": lambda collect, argument: connect(collect, lease=argument),
    "timeout of a client": lambda collect, argument: connect(collect, command_timeout=argument),
    "retry interval": lambda collect, argument: [
        connect(collect, retry_interval=both)  # type: ignore[func-returns-value]
        for both in (argument, (1, argument))
    ],
    "prefix": lambda collect, argument: connect(collect, key_prefix=argument),
    "a file of authorities": lambda collect, argument: connect(
        collect, url="rediss://127.0.0.1:1", tls_ca_file=argument
    ),
    "a file of a certificate": lambda collect, argument: connect(
        collect, url="rediss://127.0.0.1:1", tls_cert_file=argument, tls_key_file=FILE
    ),
    "a file of a key": lambda collect, argument: connect(
        collect, url="rediss://127.0.0.1:1", tls_cert_file=FILE, tls_key_file=argument
    ),
    "a URL in a file's place": lambda collect, argument: connect(
        collect, url="rediss://127.0.0.1:1", tls_ca_file=argument
    ),
    "a server's name": lambda collect, argument: connect(collect, url="rediss://127.0.0.1:1", tls_server_name=argument),
    "an address map": lambda collect, argument: [
        connect(collect, url="redis+cluster://127.0.0.1:1", address_map=addresses)  # type: ignore[func-returns-value]
        for addresses in ({argument: "h:1"} if isinstance(argument, Hashable) else {}, {"h:1": argument}, argument)
    ],
    "name of a lock": lambda collect, argument: use(collect, lock_of(argument)),
    "name of a mutex": lambda collect, argument: use(collect, lambda client: client.mutex(argument, wait=0)),
    "name of a fair lock": lambda collect, argument: use(collect, lambda client: client.fair_lock(argument)),
    "name of a read-write lock": lambda collect, argument: use(
        collect, lambda client: client.read_write_lock(argument, wait=0)
    ),
    "name of a semaphore": lambda collect, argument: use(collect, lambda client: client.semaphore(argument, 1, wait=0)),
    "name of several locks": lambda collect, argument: use(
        collect, lambda client: client.multi_lock([client.lock(argument), client.lock("other")], wait=0)
    ),
    "name of a function's lock": synchronized,
    "wait": client_call(lambda client, argument: client.lock("name", wait=argument)),
    "limit of a semaphore": client_call(lambda client, argument: client.semaphore("name", argument).acquire()),
    "permits": client_call(lambda client, argument: client.semaphore("name", 1).acquire(argument)),
    "a lock among several": client_call(lambda client, argument: client.multi_lock([argument])),
    "a lock to take away": client_call(lambda client, argument: client.force_release(argument)),
    "an argument that is not known": lambda collect, argument: connect(collect, password=argument),
}


def shapes(argument: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the texts for one argument, each with the parts that must not appear."""
    if argument == "keys":
        yield from ((key["text"], ["hunter2"]) for key in SHAPES["keys"])
        return
    for shape in SHAPES[argument]:
        for secret in SHAPES["secrets"]:
            if shape.get("unless", "\0") not in secret["raw"]:
                made = shape[FIELDS[argument]].replace("{raw}", secret["raw"]).replace("{encoded}", secret["encoded"])
                yield made, secret["marks"]


def test_each_place_of_the_table_is_tested() -> None:
    assert list(PLACES) == [place["place"] for place in SHAPES["places"] if "python" not in place.get("not in", {})]


@pytest.mark.parametrize("place", PLACES)
def test_no_secret_is_repeated(place: str) -> None:
    (argument,) = [one["given"] for one in SHAPES["places"] if one["place"] == place]
    # For an argument that is not parsed as a URL, every 29th text is enough, in every type.
    is_parsed_as_url = place.startswith(("connect", "redlock, "))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for number, (text, marks) in enumerate(shapes(argument)):
            is_turn = number % 29 == 0 or argument == "keys"
            if argument == "urls" and not is_parsed_as_url and not is_turn:
                continue
            kinds = WRAPPERS if is_turn else WRAPPERS[:1]
            for wrap in kinds:
                collect = TextCollector()
                PLACES[place](collect, wrap(text))
                texts = "".join(collect.texts)
                assert not any(mark in texts for mark in marks), f"{wrap(text)!r}: {texts}"
    assert "hunter2" not in "".join(str(one.message) for one in warned)
