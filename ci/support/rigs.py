"""Starts the rigs of ci/servers (sets of servers) for programs and tests."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SERVERS = Path(__file__).resolve().parents[1] / "servers"


@contextlib.contextmanager
def rig(name: str, *options: str) -> Iterator[dict[str, Any]]:
    """Starts a rig and yields its description, such as `urls`. The servers stop at the end of the context."""
    start = [sys.executable, str(SERVERS), name, "--json", "--until-stdin-closes", "--until-parent-ends", *options]
    # At the end of this block the pipes are closed, and the servers stop when their stdin closes.
    with subprocess.Popen(start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as servers:
        assert servers.stdout is not None
        line = servers.stdout.readline()
        if not line:
            raise RuntimeError(f"the rig {name} did not start")
        yield json.loads(line)
