"""Redisson in its cluster mode and Leasehold on one cluster: on every shard they exclude and wake one another."""

import threading
import time
from collections.abc import Callable, Iterator
from itertools import count

import pytest
from redis.cluster import ClusterNode, RedisCluster

import leasehold
from pairs import REDISSON, Pair, ours
from peers import Library, Peer
from rigs import rig
from server import ASKING, Server

SHARDS = 3


class Cluster(Server):
    """The same on all nodes of a cluster."""

    store: RedisCluster

    def asked(self) -> int:
        stats = self.store.info("commandstats", target_nodes=RedisCluster.PRIMARIES).values()
        of_interest = [node[f"cmdstat_{name}"] for node in stats for name in ASKING if f"cmdstat_{name}" in node]
        return sum(entry["calls"] - entry["failed_calls"] for entry in of_interest)

    def listeners(self, channel: str) -> int:
        node = self.store.get_node_from_key(channel)
        return int(self.store.pubsub_shardnumsub(channel, target_nodes=node)[0][1])

    def names(self) -> list[str]:
        """One on each shard."""
        found: dict[str, str] = {}
        for number in count():
            name = f"stock-{number}"
            found.setdefault(self.store.get_node_from_key(name).name, name)
            if len(found) == SHARDS:
                return list(found.values())
        raise AssertionError


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with rig("cluster") as servers:
        nodes = [ClusterNode(node["host"], node["port"]) for node in servers["nodes"]]
        with RedisCluster(startup_nodes=nodes, decode_responses=True) as store:
            yield Cluster(servers["urls"][0], store)


@pytest.fixture(scope="module")
def start(cluster: Cluster) -> Iterator[Callable[[Library], Peer]]:
    running: list[Peer] = []

    def start(library: Library) -> Peer:
        running.append(Peer(library, cluster.url))
        assert running[-1].answer(within=60) == "ready"
        return running[-1]

    yield start
    for peer in running:
        peer.stop()


def channel(name: str) -> str:
    return f"redisson_lock__channel:{{{name}}}"


def test_our_release_wakes_redisson_on_every_shard(cluster: Cluster, start: Callable[[Library], Peer]) -> None:
    theirs, own = start(REDISSON), start(ours("lock", "python"))
    for name in cluster.names():
        pair = Pair(theirs, own, cluster, name)
        pair.take(own)
        pair.try_in_vain(theirs)
        pair.wait(theirs)
        cluster.until(lambda: cluster.listeners(channel(name)) == 1, "Redisson does not listen")
        begin = time.monotonic()
        pair.release(own)
        assert theirs.answer() == "held"
        # The lease had 30 s to go.
        assert time.monotonic() - begin < 10
        pair.try_in_vain(own)
        pair.release(theirs)


def test_a_release_of_redisson_s_wakes_ours_on_every_shard(cluster: Cluster, start: Callable[[Library], Peer]) -> None:
    theirs = start(REDISSON)
    # So rarely it asks by itself.
    with leasehold.connect(cluster.url, retry_interval=(20.0, 25.0)) as client:
        for name in cluster.names():
            assert theirs.ask("try", name, 30_000) == "held"
            lock, granted = client.lock(name), threading.Event()

            def work(lock: leasehold.Lock = lock, granted: threading.Event = granted) -> None:
                with lock:
                    granted.set()

            waiter = threading.Thread(target=work)
            cluster.waits(waiter.start)
            cluster.until(lambda: cluster.listeners(channel(name)) == 1, "ours does not listen")
            assert theirs.ask("unlock", name) == "released"
            assert granted.wait(10)
            waiter.join()
