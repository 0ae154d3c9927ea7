"""Runs a command with the servers of each named rig, or of each rig: `on_rig.py cluster tls -- pytest`.

The first failure ends it. README.md lists the variables for the command.
"""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from rigs import rig

RIGS = ("standalone", "sentinel", "cluster", "redlock", "tls", "tls-sentinel", "tls-cluster")


def main() -> int:
    end = sys.argv.index("--")
    statuses = (run(name, sys.argv[end + 1 :]) for name in sys.argv[1:end] or RIGS)
    return next(filter(None, statuses), 0)


def run(name: str, command: list[str]) -> int:
    with rig(name) as servers:
        environment = {"STEADLOCK_BEHAVIOUR_URLS": " ".join(servers["urls"])}
        if servers["ca"]:
            environment["STEADLOCK_BEHAVIOUR_CA"] = servers["ca"]
        return subprocess.call(command, env={**os.environ, **environment})


if __name__ == "__main__":
    sys.exit(main())
