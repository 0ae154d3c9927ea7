"""Runs programs in a separate process, whose limits and descriptors are its own."""

from __future__ import annotations

import subprocess
import sys


def run_program(program: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Runs a program, which must reach its last line and end without an error."""
    command = [sys.executable, "-c", program + '\nprint("done")', *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("done\n"), done.stdout + done.stderr
    return done
