"""Runs a command with the servers of a rig: `on_rig.py cluster -- pytest`. README.md lists the variables for it."""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from rigs import rig


def main() -> int:
    name, _, *command = sys.argv[1:]
    with rig(name) as servers:
        told = {"STEADLOCK_BEHAVIOUR_URLS": " ".join(servers["urls"])}
        if servers["ca"]:
            told["STEADLOCK_BEHAVIOUR_CA"] = servers["ca"]
        return subprocess.call(command, env={**os.environ, **told})


if __name__ == "__main__":
    sys.exit(main())
