"""Runs a command with LEASEHOLD_BEHAVIOUR_URL, the servers of a rig: `on_rig.py cluster -- pytest`."""

import json
import os
import subprocess
import sys
from pathlib import Path

SERVERS = Path(__file__).resolve().parents[1] / "servers"


def main() -> int:
    rig, _, *command = sys.argv[1:]
    start = [sys.executable, str(SERVERS), rig, "--json", "--until-stdin-closes", "--until-parent-ends"]
    with subprocess.Popen(start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as servers:
        # Both are pipes: leaving the block closes them, which ends the servers.
        assert servers.stdout is not None
        line = servers.stdout.readline()
        if not line:
            return servers.wait() or 1
        url = json.loads(line)["urls"][0]
        return subprocess.call(command, env={**os.environ, "LEASEHOLD_BEHAVIOUR_URL": url})


if __name__ == "__main__":
    sys.exit(main())
