"""A primary with two replicas, and three sentinels that watch them."""

from ports import free_ports
from processes import HOST, Server, Servers
from rig import Rig, follows, url

NAME = "mymaster"
REPLICAS, SENTINELS, QUORUM = 2, 3, 2


def sentinel(servers: Servers) -> Rig:
    first, *others = free_ports(1 + REPLICAS + SENTINELS)
    # By default a primary delays a snapshot by 5 s, so that more replicas can share it.
    options = ["--repl-diskless-sync-delay", "0"]
    if servers.certificates:
        options += ["--tls-replication", "yes"]
    primary = servers.start(first, *options)
    replicas = [servers.start(port, *options, "--replicaof", HOST, str(first)) for port in others[:REPLICAS]]
    servers.wait_until_all_answer()
    # Sentinels ask a primary for its replicas only every 10 s, so the replicas must be linked before the first time.
    servers.wait_until(lambda: all(map(follows, replicas)), "the replicas' link to the primary")
    sentinels = [servers.start_sentinel(port, *_settings(primary)) for port in others[REPLICAS:]]
    servers.wait_until_all_answer()
    servers.wait_until(lambda: all(map(_sees_all, sentinels)), "the sentinels' sight of all servers")
    return Rig([url(servers, sentinels, "+sentinel", f"/{NAME}")], [primary], replicas, sentinels)


def _settings(primary: Server) -> list[str]:
    return [
        f"sentinel monitor {NAME} {HOST} {primary.port} {QUORUM}",
        f"sentinel down-after-milliseconds {NAME} 1000",
        f"sentinel failover-timeout {NAME} 5000",
    ]


def _sees_all(sentinel: Server) -> bool:
    """Whether a sentinel could do a failover now."""
    primary = sentinel.run("SENTINEL MASTER", NAME)
    replicas = sentinel.run("SENTINEL SLAVES", NAME)
    others = sentinel.run("SENTINEL SENTINELS", NAME)
    return (
        primary["flags"] == "master"
        and [one["flags"] for one in replicas] == ["slave"] * REPLICAS
        and all(one["master-link-status"] == "ok" for one in replicas)
        and [one["flags"] for one in others] == ["sentinel"] * (SENTINELS - 1)
    )
