"""Reads and writes the version that all packages have. Cargo.toml defines it; the patterns here find the other places.

version.py          prints the places that have another version
version.py 0.2.0    writes this version to all places
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]

# The text before and after our version, for each kind of file.
CRATE = r'(?m)(^version = "|^steadlock[\w-]* = \{[^}\n]*\bversion = ")([^"]+)(")'
NODE = r'("name": "steadlock(?:-web)?",\s*"version": ")([^"]+)(")'
MAVEN = r"(<groupId>io\.github\.steadlock</groupId>\s*<artifactId>[^<]+</artifactId>\s*<version>)([^<$]+)(</version>)"
PATTERNS = {
    "Cargo.toml": CRATE,
    "package.json": NODE,
    "package-lock.json": NODE,
    "pom.xml": MAVEN,
    "README.md": MAVEN,
}


class Place(NamedTuple):
    file: Path
    line: int
    version: str


def version(root: Path = ROOT) -> str:
    """Returns the version in Cargo.toml."""
    found = re.search(r'(?m)^version = "([^"]+)"', (root / "Cargo.toml").read_text())
    assert found, "Cargo.toml has no version"
    return found[1]


def files(root: Path = ROOT) -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=root, check=True, capture_output=True, text=True).stdout
    return [root / line for line in listed.splitlines() if Path(line).name in PATTERNS]


def places(file: Path) -> Iterator[Place]:
    """Yields the places in a file that have our version."""
    text = file.read_text()
    for found in re.finditer(PATTERNS[file.name], text):
        yield Place(file, text.count("\n", 0, found.start(2)) + 1, found[2])


def write(file: Path, new: str) -> None:
    text = file.read_text()
    if (changed := re.sub(PATTERNS[file.name], rf"\g<1>{new}\g<3>", text)) != text:
        file.write_text(changed)


def main() -> int:
    parser = argparse.ArgumentParser(description="The version that all packages have.")
    parser.add_argument("new", nargs="?", help="write this one everywhere, such as 0.2.0")
    new = parser.parse_args().new
    if new is not None:
        if not re.fullmatch(r"\d+\.\d+\.\d+(-[a-z]+\.\d+)?", new):
            parser.error(f"{new} is no version: give three numbers, or three and -rc.1")
        for file in files():
            write(file, new)
        subprocess.run(["cargo", "update", "--workspace", "--quiet"], cwd=ROOT, check=True)
    others = [place for file in files() for place in places(file) if place.version != version()]
    for other in others:
        print(f"{other.file.relative_to(ROOT)}:{other.line}: {other.version}, not {version()}", file=sys.stderr)
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
