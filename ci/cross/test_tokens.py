"""Tests that fencing tokens rise even if the server forgets them, and that their keys expire."""

import asyncio
import signal
import time

import pytest
import redis

import steadlock
import steadlock.aio
from programs import Contender, Server, contend, wait_until
from redis_server import redis_process

KINDS = ["lock", "mutex", "fair", "write"]
NAMES, TASKS = 100_000, 200
# Seconds until a token's key is surely gone. The key has a TTL of a minute.
FORGOTTEN_AFTER = 120


def token(client: steadlock.Client, kind: str, name: str) -> int:
    """Acquires a lock, keeps it, and returns its token."""
    lock = {
        "lock": client.lock,
        "mutex": client.mutex,
        "fair": client.fair_lock,
        "write": lambda name: client.read_write_lock(name).write,
    }[kind](name)
    lease = lock.try_acquire()
    assert lease
    assert lease.token is not None
    return lease.token


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_rise_across_a_failover_that_loses_the_grant(kind: str) -> None:
    with (
        redis_process("--repl-diskless-sync-delay", "0") as primary,
        redis_process("--replicaof", f"127.0.0.1 {primary.port}") as replica,
        redis.Redis(port=primary.port, decode_responses=True) as of_primary,
        redis.Redis(port=replica.port, decode_responses=True) as of_replica,
    ):
        wait_until("the replica is linked", lambda: of_replica.info("replication")["master_link_status"] == "up")
        with steadlock.connect(primary.url) as client:
            token(client, kind, "replicated")
            wait_until("the replica has the token", lambda: of_replica.exists("steadlock:{replicated}:token"))
            # Closes the replica's connection too. Otherwise the kernel would buffer data for the stopped replica.
            replica.process.send_signal(signal.SIGSTOP)
            of_primary.execute_command("CLIENT", "KILL", "TYPE", "replica")
            before = token(client, kind, "lost")
            primary.process.kill()
        replica.process.send_signal(signal.SIGCONT)
        of_replica.execute_command("REPLICAOF", "NO", "ONE")
        assert of_replica.exists("steadlock:{lost}:token") == 0, "the grant was not lost"
        with steadlock.connect(replica.url) as client:
            assert token(client, kind, "lost") > before


@pytest.mark.minutes
@pytest.mark.timeout(2 * FORGOTTEN_AFTER)
def test_tokens_rise_after_their_key_has_expired(server: Server) -> None:
    names = {kind: f"forgotten-{kind}" for kind in KINDS}

    def acquire_all(languages: list[str]) -> None:
        for kind, name in names.items():
            contend(Contender(language, "count", server, name, kind=kind, rounds=2) for language in languages)

    acquire_all(["python-threads", "rust"])
    keys = [f"steadlock:{{{name}}}:token" for name in names.values()]
    assert server.store.exists(*keys) == len(keys)
    wait_until("the server forgets the tokens", lambda: server.store.exists(*keys) == 0, within=FORGOTTEN_AFTER)
    acquire_all(["node", "jvm"])
    for name in names.values():
        tokens = [int(token) for token in server.store.lrange(f"{name}:tokens", 0, -1)]
        assert len(tokens) == 8
        assert tokens == sorted(set(tokens))


@pytest.mark.minutes
@pytest.mark.timeout(3 * FORGOTTEN_AFTER)
def test_the_tokens_of_100_000_names_are_gone_after_two_minutes() -> None:
    with redis_process() as server, redis.Redis(port=server.port, decode_responses=True) as store:
        asyncio.run(acquire_names(server.url))
        acquired = time.monotonic()
        left = store.dbsize()
        # On a busy machine the first tokens expire before the last lock is acquired.
        assert left > NAMES / 4, "a token is kept for a minute"
        wait_until("all keys are gone", lambda: store.dbsize() == 0, within=FORGOTTEN_AFTER)
        print(f"{left} keys were left, all gone after {time.monotonic() - acquired:.0f} s")


async def acquire_names(url: str) -> None:
    """Acquires and releases `NAMES` locks, each with its own name."""
    names = iter(range(NAMES))
    async with steadlock.aio.connect(url) as client:

        async def work() -> None:
            for number in names:
                async with client.lock(f"order:{number}"):
                    pass

        await asyncio.gather(*(work() for _ in range(TASKS)))
