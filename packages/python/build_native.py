"""Builds the native library for this machine, and lets this Python import the package from its sources.

If STEADLOCK_BUILT names a folder, the library in it is copied instead.

The wheels that users install are built by maturin.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).resolve().parent / "src"
BUILT = {"darwin": "lib_native.dylib", "win32": "_native.dll"}.get(sys.platform, "lib_native.so")
IMPORTED = SOURCES / "steadlock" / ("_native.pyd" if sys.platform == "win32" else "_native.abi3.so")


def main() -> None:
    given = os.environ.get("STEADLOCK_BUILT")
    folder = Path(given) if given else Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
    if not given:
        subprocess.run(["cargo", "native", "--quiet"], cwd=ROOT, check=True)
    # Writes a new file and renames it, as a process may have mapped the old one.
    fresh = IMPORTED.with_suffix(f".{os.getpid()}")
    shutil.copyfile(folder / BUILT, fresh)
    fresh.replace(IMPORTED)
    (Path(sysconfig.get_path("purelib")) / "steadlock.pth").write_text(f"{SOURCES}\n")


if __name__ == "__main__":
    main()
