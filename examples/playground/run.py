"""Serves the playground: one page with real clients of steadlock-web, and the development server behind it.

    --port N   the loopback port of the page; by default a free one

Prints the page's address, and ends with Ctrl-C.
"""

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
STEADLOCK = ROOT / "target" / "release" / "steadlock"
PACKAGE = ROOT / "packages" / "web" / "dist"


def assemble(folder: Path) -> None:
    """Copies the page and the package that it imports into a folder: the server follows no links out of its folder."""
    shutil.copytree(HERE / "page", folder, dirs_exist_ok=True)
    shutil.copytree(PACKAGE, folder / "steadlock", ignore=shutil.ignore_patterns("*.d.ts"))


def serve(folder: Path, port: int) -> int:
    command = [str(STEADLOCK), "serve", "--port", "0", "--http", str(port), "--http-root", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            for line in server.stdout:
                if line.startswith("steadlock: http on "):
                    print(f"the playground is at {line.split()[-1]}/; Ctrl-C ends it", flush=True)
            print("the server has ended", file=sys.stderr)
            return 1
        finally:
            server.terminate()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    for needed in (STEADLOCK, PACKAGE / "steadlock.wasm"):
        if not needed.exists():
            print(f"{needed} is not built: run ./ci/just playground", file=sys.stderr)
            return 1
    # SIGTERM then ends the program as Ctrl-C does, and leaves nothing behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory(prefix="playground-") as name:
            assemble(Path(name))
            return serve(Path(name), options.port)
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
