"""Tests Redisson in cluster mode and Steadlock on one cluster: they exclude and wake each other on every shard."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import pytest
import redis
from rigs import rig

import steadlock
from pairs import REDISSON, Pair, ours
from peers import Library, Peer, peers
from server import ATTEMPT_COMMANDS, Server

SHARDS = 3


@dataclass(frozen=True)
class Cluster(Server):
    """A cluster, with the same operations on all of its primaries."""

    nodes: tuple["redis.Redis", ...] = ()

    def attempts_received(self) -> int:
        stats = [node.info("commandstats") for node in self.nodes]
        counts = [node[f"cmdstat_{name}"] for node in stats for name in ATTEMPT_COMMANDS if f"cmdstat_{name}" in node]
        return sum(entry["calls"] - entry["failed_calls"] for entry in counts)

    def subscribers(self, channel: str) -> int:
        return sum(int(node.pubsub_shardnumsub(channel)[0][1]) for node in self.nodes)

    def shard(self, name: str) -> int:
        """Returns the number of the node that has a name's slot."""
        slot = int(self.store.cluster("KEYSLOT", name))
        owned = [node.cluster("MYID") for node in self.nodes]
        slots = self.store.execute_command("CLUSTER SLOTS")  # type: ignore[no-untyped-call]
        for first, last, (_, _, owner, *_), *_ in slots:
            if first <= slot <= last:
                return owned.index(owner)
        raise AssertionError(f"no node has slot {slot}")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with rig("cluster") as servers:
        primaries = [node["port"] for node in servers["nodes"] if node["role"] == "primary"]
        nodes = tuple(redis.Redis(port=port, decode_responses=True) for port in primaries)
        yield Cluster(servers["urls"][0], nodes[0], nodes=nodes)
        for node in nodes:
            node.close()


@pytest.fixture(scope="module")
def start(cluster: Cluster) -> Iterator[Callable[[Library], Peer]]:
    with peers(cluster.url) as start:
        yield start


def channel(name: str) -> str:
    return f"redisson_lock__channel:{{{name}}}"


@pytest.fixture(params=range(SHARDS))
def name(request: pytest.FixtureRequest, cluster: Cluster) -> str:
    """A lock name on each shard."""
    return next(name for name in map("stock-{}".format, count()) if cluster.shard(name) == request.param)


def test_our_release_wakes_a_waiter_of_redisson(cluster: Cluster, start: Callable[[Library], Peer], name: str) -> None:
    theirs, own = start(REDISSON), start(ours("lock", "python"))
    pair = Pair(theirs, own, cluster, name)
    pair.acquire(own)
    pair.expect_refusal(theirs)
    pair.wait(theirs)
    cluster.until(lambda: cluster.subscribers(channel(name)) == 1, "Redisson has not subscribed")
    begin = time.monotonic()
    pair.release(own)
    assert theirs.answer() == "held"
    # The lease would have lasted for 30 s more.
    assert time.monotonic() - begin < 10
    pair.expect_refusal(own)
    pair.release(theirs)


def test_a_release_of_redisson_wakes_our_waiter(cluster: Cluster, start: Callable[[Library], Peer], name: str) -> None:
    theirs, granted = start(REDISSON), threading.Event()
    assert theirs.call("try", name, 30_000) == "held"
    # The poll interval is so long that only a notification can wake the waiter in time.
    with steadlock.connect(cluster.url, retry_interval=(20.0, 25.0)) as client:
        lock = client.lock(name)

        def work() -> None:
            with lock:
                granted.set()

        waiter = threading.Thread(target=work)
        cluster.begin_wait(waiter.start)
        cluster.until(lambda: cluster.subscribers(channel(name)) == 1, "our waiter has not subscribed")
        assert theirs.call("unlock", name) == "released"
        assert granted.wait(10)
        waiter.join()
