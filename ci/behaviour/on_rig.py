"""Runs a command with LEASEHOLD_BEHAVIOUR_URL, the servers of a rig: `on_rig.py cluster -- pytest`."""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from rigs import rig


def main() -> int:
    name, _, *command = sys.argv[1:]
    with rig(name) as servers:
        return subprocess.call(command, env={**os.environ, "LEASEHOLD_BEHAVIOUR_URL": servers["urls"][0]})


if __name__ == "__main__":
    sys.exit(main())
