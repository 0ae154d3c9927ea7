"""Starts servers for tests, or to try things by hand, and stops them when it ends: `./ci/just servers RIG`."""

import argparse
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from certificates import Certificates
from cluster import cluster
from processes import NotStartedError, PortTakenError, Servers, StopRequestedError
from redis_server import server_program
from rig import Rig
from sentinel import sentinel
from standalone import redlock, standalone

RIGS = {
    "standalone": (standalone, "one server"),
    "sentinel": (sentinel, "a primary, two replicas and three sentinels"),
    "cluster": (cluster, "three primaries with a replica each"),
    "tls": (standalone, "one server that speaks TLS only"),
    "tls-cluster": (cluster, "a cluster that speaks TLS only"),
    "tls-sentinel": (sentinel, "a primary, two replicas and three sentinels that speak TLS only"),
    "redlock": (redlock, "five servers that know nothing of each other"),
}
WITH_TLS = ("tls", "tls-cluster", "tls-sentinel")
# The name of each version in ci/support/server.
PROGRAMS = {"6.2": "6.2", "7.0": "system", "8.2": "8.2", "valkey": "valkey"}
MEMORY = "/dev/shm"
# The signals that end the command, and the interval in seconds at which the command checks whether it must end.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
CHECK_INTERVAL = 0.5
# The number of attempts to start a rig, each with other ports.
ATTEMPTS = 5


def main() -> int:
    options = parse()
    try:
        # `server_program` runs before `serve` handles signals. No server has started yet, so a signal may just kill us.
        serve(options, server_program(PROGRAMS[options.server]))
    except StopRequestedError:
        return 0
    except NotStartedError as error:
        print(f"servers: {error}", file=sys.stderr)
    except subprocess.CalledProcessError as error:
        print(f"servers: {error}\n{error.stderr or ''}".rstrip(), file=sys.stderr)
    return 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./ci/just servers",
        description=__doc__,
        epilog="\n".join(f"  {name:<12} {what}" for name, (_, what) in RIGS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("rig", choices=RIGS)
    parser.add_argument(
        "--server",
        choices=PROGRAMS,
        default=chosen_server(),
        help="7.0 is the system's redis-server (default: the one that STEADLOCK_TEST_SERVER names, or 7.0)",
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON instead of text")
    parser.add_argument("--until-stdin-closes", action="store_true", help="stop when stdin ends, too")
    parser.add_argument("--until-parent-ends", action="store_true", help="stop when the parent process ends, too")
    options = parser.parse_args()
    if options.server not in PROGRAMS:
        parser.error(f"STEADLOCK_TEST_SERVER is {options.server}, which is no server: choose one by --server")
    if options.rig in WITH_TLS and options.server != "7.0":
        parser.error(f"{options.rig} needs --server 7.0: the program of {options.server} is built without TLS")
    return options


def chosen_server() -> str:
    chosen = os.environ.get("STEADLOCK_TEST_SERVER", "system")
    return {program: name for name, program in PROGRAMS.items()}.get(chosen, chosen)


def serve(options: argparse.Namespace, program: str) -> None:
    """Runs a rig until the command must end, then stops all servers, removes their folder, raises `StopRequestedError`.

    Raises another exception if the rig does not start."""
    parent = os.getppid()
    build, _ = RIGS[options.rig]
    stop_signals: list[int] = []
    for number in ENDING:
        signal.signal(number, lambda number, _: stop_signals.append(number))
    with tempfile.TemporaryDirectory(prefix="steadlock-servers-", dir=parent_folder()) as name:
        folder = Path(name)
        certificates = Certificates.make(folder / "certificates") if options.rig in WITH_TLS else None
        for attempts_left in reversed(range(ATTEMPTS)):
            with Servers(program, folder, certificates, lambda: bool(stop_signals)) as servers:
                try:
                    rig = build(servers)
                except PortTakenError:
                    if attempts_left == 0:
                        raise
                    continue
                print(as_json(options, rig, servers) if options.json else as_text(options, rig, servers), flush=True)
                wait(servers, options.until_stdin_closes, parent if options.until_parent_ends else None)


def parent_folder() -> str | None:
    """Returns a folder in memory, if the system has one and TMPDIR names no other place. Cluster nodes and sentinels
    answer no calls while they write their state to disk, and on a busy disk that takes seconds."""
    return MEMORY if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) else None


def as_json(options: argparse.Namespace, rig: Rig, servers: Servers) -> str:
    description = {"rig": options.rig, "server": options.server, "urls": rig.urls, "nodes": rig.nodes()}
    return json.dumps({**description, "ca": str(servers.certificates.authority) if servers.certificates else None})


def as_text(options: argparse.Namespace, rig: Rig, servers: Servers) -> str:
    lines = [*rig.urls, ""]
    lines += [f"  {node['role']:<9} {node['host']}:{node['port']}  pid {node['pid']}" for node in rig.nodes()]
    if servers.certificates:
        lines.append(f"CA file: {servers.certificates.authority}")
    lines.append(f"Data and logs: {servers.folder}")
    lines.append("To stop: " + ("close stdin, or Ctrl-C" if options.until_stdin_closes else "Ctrl-C"))
    return "\n".join(lines)


def wait(servers: Servers, until_stdin_closes: bool, parent: int | None) -> None:
    """Waits for a signal, the end of stdin or the end of the parent, then raises `StopRequestedError`.

    A server that dies in the meantime is not an error: tests kill servers on purpose."""
    descriptors = [sys.stdin.fileno()] if until_stdin_closes else []
    while not servers.is_stop_requested() and (parent is None or os.getppid() == parent):
        readable, _, _ = select.select(descriptors, [], [], CHECK_INTERVAL)
        if readable and not os.read(descriptors[0], 65_536):
            raise StopRequestedError
        for server in servers.running:
            # A killed server remains a zombie until its status is read.
            server.process.poll()
    raise StopRequestedError


if __name__ == "__main__":
    sys.exit(main())
