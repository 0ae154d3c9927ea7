"""Builds the artefacts of `package` once more, from a clone in another folder, and compares every file.

reproduce.py [--all]    with the same options as `package`
"""

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

from building import DIST, ROOT
from table import TABLE


def digests(folder: Path) -> dict[str, str]:
    """Returns the checksums of the files for users, by their paths."""
    files = (file for file in folder.rglob("*") if file.is_file() and file.name != TABLE.name)
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def main() -> None:
    if subprocess.run(["git", "diff", "--quiet", "HEAD"], cwd=ROOT, check=False).returncode:
        sys.exit("reproduce: there are changes that are not committed; a clone has none of them")
    with tempfile.TemporaryDirectory() as elsewhere:
        clone = Path(elsewhere) / "steadlock"
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        subprocess.run(["./ci/just", "package", *sys.argv[1:], "--unused"], cwd=clone, check=True)
        first, second = digests(DIST), digests(clone / "dist")
    others = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
    for name in others:
        print(f"differs: {name}")
    print(f"{len(first) - len(others)} of {len(first)} files are the same")
    sys.exit(bool(others))


if __name__ == "__main__":
    main()
