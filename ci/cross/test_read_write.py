"""Tests that readers and writers of several languages do not starve each other, also if some of them die."""

import time
from contextlib import ExitStack

import pytest
from inside import longest_gap, steps
from monitor import Monitor

import steadlock
from programs import LANGUAGES, Contender, Server, finish, start_round, together, turns, wait_until

LEASE_MS = 2000
# Seconds. Readers acquire the lock again and again for READING. A writer that they kept out would wait until its end.
READING, WRITER_WITHIN = 6, 4
RING = list(zip(LANGUAGES, LANGUAGES[1:] + LANGUAGES[:1], strict=True))


@pytest.mark.parametrize("language", ["python-threads", "node", "jvm"])
def test_a_writer_is_granted_although_readers_acquire_again_at_once(server: Server, language: str) -> None:
    name = f"hammered-{language}"
    readers = [
        Contender(one, "turns", server, name, kind="read", workers=2, seconds=READING, hold_ms=2)
        for one in ("rust", "python-asyncio", "node", "jvm")
    ]
    with (
        together(readers) as ready,
        together([Contender(language, "turns", server, name, kind="write", rounds=5, log=1)]) as (writer,),
    ):
        start_round(ready)
        wait_until("the readers hold the lock", lambda: server.store.zcard(f"steadlock:{{{name}}}:rw-readers") > 0)
        waiting_since = server.time()
        writer.start_round()
        assert turns(writer.read()).grants == [5]
        results = [turns(line) for line in finish(ready)]
    waited = longest_gap(steps(server, name), waiting_since)
    print(f"{language} waited {waited:.3f} s at most to write, {[sum(one.grants) for one in results]} reads")
    assert waited < WRITER_WITHIN
    assert all(count > 0 for one in results for count in one.grants), "a reader was never granted the lock"


def test_a_writer_follows_20_killed_reader_processes_within_a_lease(server: Server) -> None:
    name = "killed-readers"
    with ExitStack() as stack, steadlock.connect(server.url) as client:
        readers = [
            stack.enter_context(Contender(language, "hold", server, name, kind="read", workers=3, lease_ms=LEASE_MS))
            for language in LANGUAGES * 4
        ]
        for reader in readers:
            reader.expect("held")
        lock = client.read_write_lock(name).write
        assert lock.try_acquire() is None
        for reader in readers:
            reader.process.kill()
        killed = time.monotonic()
        assert lock.try_acquire(wait=20)
        waited = time.monotonic() - killed
    print(f"the writer was granted the lock {waited:.2f} s after the readers were killed")
    # The machine is busy, because all the readers have just ended. A default lease would last 30 s.
    assert waited < LEASE_MS / 1000 + 4


@pytest.mark.timing
@pytest.mark.parametrize(("writer", "reader"), RING)
def test_a_downgrade_grants_waiting_readers_within_100_ms(server: Server, writer: str, reader: str) -> None:
    name = f"downgrade-{writer}"
    readers = f"steadlock:{{{name}}}:rw-readers"
    with (
        Monitor(server.port) as monitor,
        Contender(writer, "downgrade", server, name) as downgrading,
        steadlock.connect(server.url) as client,
    ):
        downgrading.expect("held")
        with Contender(reader, "hold", server, name, kind="read", workers=3) as waiting:
            wait_until("the readers wait", lambda: server.subscribers(name) == 1)
            downgrading.start_round()
            downgrading.expect("reading")
            waiting.expect("held", within=5)
            assert client.read_write_lock(name).write.try_acquire() is None
            waiting.start_round()
            waiting.expect("released")
            assert client.read_write_lock(name).write.try_acquire() is None, "the downgraded reader holds the lock"
            downgrading.start_round()
            downgrading.expect("released")
            commands = [command for command in monitor.commands() if command.by_script]
    released = next(one.at for one in commands if one.arguments[0] == "HDEL" and "writer" in one.arguments)
    granted = [one.at for one in commands if one.arguments[:2] == ("ZADD", readers) and one.at > released]
    print(f"{reader} reads {(granted[-1] - released) * 1000:.1f} ms after {writer} stopped writing")
    assert len(granted) == 3
    assert granted[-1] - released < 0.1
