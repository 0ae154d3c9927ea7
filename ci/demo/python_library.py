"""Copies the native library of the Python package to the place from which its sources import it.

python_library.py FOLDER    FOLDER has the output of cargo
"""

import os
import shutil
import sys
from pathlib import Path

BUILT = {"darwin": "lib_native.dylib", "win32": "_native.dll"}.get(sys.platform, "lib_native.so")
PACKAGE = Path(__file__).resolve().parents[2] / "packages" / "python" / "src" / "steadlock"
IMPORTED = PACKAGE / ("_native.pyd" if sys.platform == "win32" else "_native.abi3.so")

if __name__ == "__main__":
    # Writes a new file and renames it, as a process may have mapped the old one.
    fresh = IMPORTED.with_suffix(f".{os.getpid()}")
    shutil.copyfile(Path(sys.argv[1]) / BUILT, fresh)
    fresh.replace(IMPORTED)
