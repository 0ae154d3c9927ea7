"""Finds the project's former name, in files and in their paths. PyPI has another project of that name.

python ci/lint/former_name.py
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence

FORMER = "leasehold"
#: The files that may have the name, and on how many lines.
KEPT = {"CHANGELOG.md": 1, "docs/architecture/decisions.md": 1, "ci/lint/former_name.py": 1}


def hits(paths: Sequence[str], lines: Sequence[str]) -> Iterator[str]:
    """Yields the paths with the name, and the lines `PATH:NUMBER:TEXT` with it that a file has beyond its kept ones."""
    yield from (path for path in paths if FORMER in path.lower())
    left = dict(KEPT)
    for line in lines:
        path = line.partition(":")[0]
        left[path] = left.get(path, 0) - 1
        if left[path] < 0:
            yield line


def git(*words: str) -> list[str]:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout.splitlines()


def main() -> int:
    # Git finds the name at least in this file. It reports a binary file without its lines.
    found = list(hits(git("ls-files"), git("grep", "--line-number", "--ignore-case", "--fixed-strings", FORMER)))
    for hit in found:
        print(f"{hit[:200]}: the project is called Steadlock")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
