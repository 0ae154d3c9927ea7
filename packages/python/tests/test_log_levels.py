"""Tests of the logger that gets the lines, and of its level, which the program can change at any time."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from servers import RedisServer, eventually
from test_forks import in_child

import steadlock
from steadlock import _log, _native, aio

LOGGER = "steadlock"


@pytest.fixture(autouse=True)
def levels_as_before() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in (None, LOGGER)]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [vars(record)["event"] for record in caplog.records if record.name == LOGGER]


@pytest.mark.parametrize("logger", [None, LOGGER])
def test_the_level_can_be_changed_later(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, logger: str | None
) -> None:
    made: list[_native.Line] = []
    write = _log.write

    def count_and_write(lines: list[_native.Line]) -> None:
        made.extend(lines)
        write(lines)

    monkeypatch.setattr(_log, "write", count_and_write)
    logging.getLogger(logger).setLevel(logging.WARNING)
    with steadlock.connect("memory://") as client:

        def is_logged() -> bool:
            with client.lock("stock"):
                pass
            return "released" in events(caplog)

        def makes_no_line() -> bool:
            made.clear()
            lease = client.lock("quiet", lease=0.1).try_acquire(wait=20)
            assert lease is not None
            # A loss is reported after the lines that were made before it.
            assert lease.lost.wait(20)
            return made == []

        # The client checks the level from time to time.
        logging.getLogger(logger).setLevel(logging.DEBUG)
        eventually(20, is_logged)
        logging.getLogger(logger).setLevel(logging.WARNING)
        eventually(20, lambda: not _log.is_behind())
        caplog.clear()
        # The core itself makes no lines any more, because lines that the logger drops would cost time.
        eventually(20, makes_no_line)
        eventually(20, lambda: not _log.is_behind())
    assert events(caplog) == []


async def test_the_level_can_be_changed_later_in_asyncio(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger(LOGGER).setLevel(logging.CRITICAL)
    async with aio.connect("memory://") as client:
        logging.getLogger(LOGGER).setLevel(logging.DEBUG)
        async with asyncio.timeout(20):
            while "released" not in events(caplog):
                async with client.lock("stock"):
                    await asyncio.sleep(0.01)


def test_a_logger_enabled_later_gets_losses_of_earlier_leases(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logging.getLogger(LOGGER).setLevel(logging.CRITICAL)
    with steadlock.connect("memory://") as client:
        assert client.lock("door", max_hold=3).try_acquire()
        assert not client._connection.events._thread.is_running()
        logging.getLogger(LOGGER).setLevel(logging.INFO)
        # The program makes no call meanwhile.
        eventually(20, lambda: "lost" in events(caplog))


def test_a_client_in_a_forked_child_follows_its_level(server: RedisServer) -> None:
    logging.getLogger(LOGGER).setLevel(logging.CRITICAL)
    with steadlock.connect(server.url) as client:

        def listen() -> None:
            events: list[str] = []
            handler = logging.Handler()
            handler.emit = lambda record: events.append(vars(record)["event"])  # type: ignore[method-assign]
            logging.getLogger(LOGGER).addHandler(handler)
            assert client.lock("door", max_hold=3).try_acquire()
            logging.getLogger(LOGGER).setLevel(logging.INFO)
            eventually(20, lambda: "lost" in events)

        in_child(listen)


THREADS = """
def lose(after_connect, after_acquire):
    client = steadlock.connect("memory://")
    after_connect()
    lease = client.lock("door", max_hold=1.5).try_acquire()
    after_acquire()
    assert lease.lost.wait(10)
    client.close()
    until_written()
"""
TASKS = """
import asyncio
from steadlock import aio

def lose(after_connect, after_acquire):
    async def main():
        async with aio.connect("memory://") as client:
            after_connect()
            lease = await client.lock("door", max_hold=1.5).try_acquire()
            after_acquire()
            await asyncio.wait_for(lease.lost.wait(), 10)
    asyncio.run(main())
    until_written()
"""
GREENLETS = """
from gevent import monkey; monkey.patch_all()
import gevent

def lose(after_connect, after_acquire):
    client = steadlock.connect("memory://")
    after_connect()
    lease = client.lock("door", max_hold=1.5).try_acquire()
    after_acquire()
    other = client.lock("other").try_acquire()
    gevent.spawn(lambda: client.lock("other").acquire(timeout=5)).join()
    client.close()
    until_written()
"""
PROGRAM = """
import logging, logging.config, sys, time
import steadlock

def nothing(): pass

def until_written():
    # A close and the end of the process wait for the log only briefly.
    while steadlock._log.is_behind():
        time.sleep(0.001)

def configure():
    # By default, `dictConfig` disables the existing loggers that it does not name.
    logging.config.dictConfig({
        "version": 1,
        "formatters": {"short": {"format": "%(levelname)s %(name)s %(message)s"}},
        "handlers": {"out": {"class": "logging.StreamHandler", "stream": "ext://sys.stdout", "formatter": "short"}},
        "root": {"level": "INFO", "handlers": ["out"]},
    })
"""


def output_of(api: str, rest: str) -> str:
    # gevent must patch first.
    program = api + PROGRAM if "monkey" in api else PROGRAM + api
    done = subprocess.run(
        [sys.executable, "-c", program + rest], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("api", [THREADS, TASKS, GREENLETS], ids=["threads", "tasks", "greenlets"])
@pytest.mark.parametrize(
    "program",
    ["configure(); lose(nothing, nothing)", "lose(configure, nothing)", "lose(nothing, configure)"],
    ids=["after the import", "after connecting", "after acquiring"],
)
def test_disabling_existing_loggers_does_not_disable_losses(api: str, program: str) -> None:
    assert 'steadlock lock "door" is lost' in output_of(api, program)


def test_a_disabled_logger_writes_nothing() -> None:
    rest = 'configure(); logging.getLogger("steadlock").disabled = True; lose(nothing, nothing)'
    assert output_of(THREADS, rest) == ""


def test_a_handler_added_later_gets_later_lines() -> None:
    rest = """
configure()
def listen():
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("mine: %(message)s"))
    logger = logging.getLogger("steadlock")
    logger.addHandler(handler)
    logger.propagate = False
lose(nothing, listen)
"""
    assert output_of(THREADS, rest).startswith('mine: lock "door" is lost')


@pytest.mark.parametrize("silence", ["logging.disable()", "logging.getLogger().setLevel(logging.CRITICAL)"])
def test_disabling_all_logging_disables_this_log(silence: str) -> None:
    assert output_of(THREADS, f"configure(); {silence}; lose(nothing, nothing)") == ""


def test_an_unconfigured_program_gets_losses_on_stderr() -> None:
    program = f"{PROGRAM}{THREADS}lose(nothing, nothing)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.startswith('lock "door" is lost')
    assert done.stdout == ""


def level_of(configure: Callable[[], object]) -> str | None:
    configure()
    return _log.wanted_level()


def test_the_level_is_inherited_from_the_nearest_logger() -> None:
    root, own = logging.getLogger(), logging.getLogger(LOGGER)
    own.setLevel(logging.NOTSET)
    assert level_of(lambda: root.setLevel(logging.ERROR)) == "error"
    assert level_of(lambda: own.setLevel(logging.DEBUG)) == "debug"
    assert level_of(lambda: own.setLevel(logging.CRITICAL)) is None
