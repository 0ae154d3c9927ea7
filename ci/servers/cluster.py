"""A cluster of three primaries with one replica each."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from ports import free_ports
from processes import HOST, Server, Servers
from rig import Rig, follows, url

SHARDS = 3
SLOTS = 16_384
# Seconds between two rounds of introductions; longer than one introduction takes.
ROUND = 3.0


def cluster(servers: Servers) -> Rig:
    nodes = [servers.start(port, *_options(servers)) for port in free_ports(2 * SHARDS)]
    servers.wait_until_all_answer()
    primaries, replicas = nodes[:SHARDS], nodes[SHARDS:]
    for number, primary in enumerate(primaries):
        primary.run("CLUSTER ADDSLOTS", *range(SLOTS * number // SHARDS, SLOTS * (number + 1) // SHARDS))
    for epoch, node in enumerate(nodes, 1):
        # Nodes with the same epoch would first have to resolve that conflict while they meet.
        node.run("CLUSTER SET-CONFIG-EPOCH", epoch)
    servers.wait_until(Meeting(nodes).is_over, "the meeting of all nodes")
    for primary, replica in zip(primaries, replicas, strict=True):
        servers.wait_until(_replicates(replica, primary), f"the replication of {primary.address}")
    servers.wait_until(lambda: _is_formed(nodes), "cluster_state:ok at all nodes with linked replicas")
    return _rig(servers, nodes)


def _options(servers: Servers) -> list[str]:
    options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--repl-diskless-sync-delay", "0"]
    if servers.certificates:
        options += ["--tls-cluster", "yes", "--tls-replication", "yes"]
    return options


@dataclass
class Meeting:
    """Introduces the nodes to each other until each node knows all others.

    The first node meets the others, and gossip does the rest. A node forgets another one if their introduction takes
    longer than the node timeout. Therefore a node that lacks others introduces itself to them again. A round passes in
    between, because Valkey drops its link to a node that introduces itself again."""

    nodes: list[Server]
    next_round: float = 0

    def is_over(self) -> bool:
        if time.monotonic() >= self.next_round:
            for node in self.nodes if self.next_round else self.nodes[:1]:
                self._introduce(node)
            self.next_round = time.monotonic() + ROUND
        return all(len(_settled(node)) == len(self.nodes) for node in self.nodes)

    def _introduce(self, node: Server) -> None:
        listed = {_port(address) for address in node.run("CLUSTER NODES")}
        for other in self.nodes:
            if other is not node and other.port not in listed:
                node.run("CLUSTER MEET", HOST, other.port)


def _settled(node: Server) -> set[int]:
    """Returns the ports of the nodes that this node knows and is connected to, its own among them."""
    return {
        _port(address)
        for address, state in node.run("CLUSTER NODES").items()
        if state["connected"] and not UNSETTLED & set(state["flags"].split(","))
    }


def _port(address: str) -> int:
    return int(address.rsplit(":", 1)[1])


def _replicates(replica: Server, primary: Server) -> Callable[[], bool]:
    """Returns a condition that makes a node the replica of a primary. The node refuses, and is asked again, until it
    knows that primary."""
    return lambda: bool(replica.run("CLUSTER REPLICATE", str(primary.run("CLUSTER MYID"))))


def _is_formed(nodes: list[Server]) -> bool:
    """Whether all nodes agree on a cluster that serves every slot.

    Any of the nodes can be the primaries: on a busy machine a replica may have taken over already."""
    return all(_agrees(node, len(nodes)) for node in nodes) and len(_replicas(nodes)) == SHARDS


def _agrees(node: Server, count: int) -> bool:
    state = node.run("CLUSTER INFO")
    flags = [one["flags"].split(",") for one in node.run("CLUSTER NODES").values()]
    return (
        state["cluster_state"] == "ok"
        and int(state["cluster_slots_ok"]) == SLOTS
        and len(_settled(node)) == count
        and sum("slave" in one for one in flags) == count - SHARDS
    )


def _replicas(nodes: list[Server]) -> list[Server]:
    return [node for node in nodes if follows(node)]


def _rig(servers: Servers, nodes: list[Server]) -> Rig:
    replicas = [node for node in nodes if node.store.info("replication")["role"] == "slave"]
    primaries = [node for node in nodes if node not in replicas]
    return Rig([url(servers, primaries, "+cluster")], primaries, replicas)


UNSETTLED = {"handshake", "fail", "fail?", "noaddr"}
