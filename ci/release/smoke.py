"""Installs the wheel and the Node packages of dist/ into an empty folder, and acquires a lock on memory://.

Works on any system that has Python and Node, also with musl, where ./ci/just cannot run. On Linux it also runs the
command.
"""

import os
import platform
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"

PYTHON = """
import steadlock

with steadlock.connect("memory://") as client, client.lock("smoke") as lease:
    print("Python: fencing token", lease.token)
"""

NODE = """
const { connect } = await import('steadlock');
const client = await connect('memory://');
await client.using('smoke', (lease) => console.log('Node: fencing token', lease.token));
await client.close();
"""


def main(name: str) -> None:
    """Runs the smoke test. `name` is npm's name of the platform, such as linux-x64-musl."""
    with tempfile.TemporaryDirectory() as folder:
        python(Path(folder))
        node(Path(folder), name)
        if platform.system() == "Linux":
            command(Path(folder))


def python(folder: Path) -> None:
    run(folder, sys.executable, "-m", "venv", "venv")
    program = folder / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    wheels = ["--no-index", "--find-links", str(DIST / "python"), "--only-binary", ":all:"]
    run(folder, program, "-m", "pip", "install", "--quiet", "--pre", *wheels, "steadlock")
    run(folder, program, "-c", PYTHON)


def node(folder: Path, name: str) -> None:
    (folder / "package.json").write_text('{ "private": true }\n')
    (platform_package,) = (DIST / "npm").glob(f"steadlock-{name}-[0-9]*.tgz")
    (main_one,) = (DIST / "npm").glob("steadlock-[0-9]*.tgz")
    npm = "npm.cmd" if os.name == "nt" else "npm"
    run(folder, npm, "install", "--offline", "--no-audit", "--no-fund", "--loglevel=error", platform_package, main_one)
    run(folder, "node", "--input-type=module", "--eval", NODE)


def command(folder: Path) -> None:
    (archive,) = (DIST / "command").glob(f"*-linux-{platform.machine()}.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    (program,) = folder.glob("steadlock-*/steadlock")
    run(folder, program, "--version")


def run(folder: Path, *words: str | Path) -> None:
    subprocess.run([str(word) for word in words], cwd=folder, check=True)


if __name__ == "__main__":
    main(sys.argv[1])
