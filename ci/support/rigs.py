"""The rigs of ci/servers, for programs and tests."""

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
    """Yields what the rig tells of itself, such as `urls`; its servers stop at the end."""
    start = [sys.executable, str(SERVERS), name, "--json", "--until-stdin-closes", "--until-parent-ends", *options]
    # Leaving the block closes the pipes, which ends the servers.
    with subprocess.Popen(start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as servers:
        assert servers.stdout is not None
        line = servers.stdout.readline()
        if not line:
            raise RuntimeError(f"the rig {name} did not start")
        yield json.loads(line)
