"""The description of a rig that is ready."""

from dataclasses import dataclass, field

from processes import HOST, Server, Servers

PRIMARY, REPLICA, SENTINEL = "primary", "replica", "sentinel"


@dataclass(frozen=True)
class Rig:
    """The URLs of a rig, and its servers by role."""

    urls: list[str]
    primaries: list[Server]
    replicas: list[Server] = field(default_factory=list)
    sentinels: list[Server] = field(default_factory=list)

    def nodes(self) -> list[dict[str, str | int]]:
        roles = [(PRIMARY, self.primaries), (REPLICA, self.replicas), (SENTINEL, self.sentinels)]
        return [
            {"role": role, "host": HOST, "port": server.port, "pid": server.process.pid}
            for role, servers in roles
            for server in servers
        ]


def url(servers: Servers, hosts: list[Server], kind: str = "", path: str = "") -> str:
    """Returns a URL such as `redis://h`, `rediss+cluster://h1,h2` or `redis+sentinel://h1,h2/name`."""
    scheme = "rediss" if servers.certificates else "redis"
    return f"{scheme}{kind}://{','.join(server.address for server in hosts)}{path}"


def follows(replica: Server) -> bool:
    """Whether a replica is linked to its primary and has its data."""
    state = replica.store.info("replication")
    return bool(state["role"] == "slave" and state["master_link_status"] == "up")
