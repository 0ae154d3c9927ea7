"""Writes THIRD-PARTY-LICENSES.txt: the licence texts of every crate that is built into what we ship.

python ci/dependencies/licenses.py            writes the file
python ci/dependencies/licenses.py --check    exits with 1 if the file is not up to date
"""

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
FILE = ROOT / "THIRD-PARTY-LICENSES.txt"
# Our crates that are shipped as binaries.
SHIPPED = ("steadlock-cli", "steadlock-jvm", "steadlock-node", "steadlock-python")
# Build dependencies whose source is compiled into the result: Lua.
COMPILED_IN = ("lua-src",)
NAMES = re.compile(r"(LICEN[CS]E|COPYING|COPYRIGHT|NOTICE|UNLICENSE)", re.IGNORECASE)
HEAD = """\
Steadlock's native libraries and its command contain the crates below. Each is used under the licence that stands
with it. Written by ci/dependencies/licenses.py; do not edit.
"""


def metadata() -> dict[str, Any]:
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    result: dict[str, Any] = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    return result


def shipped(graph: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the third-party packages that are compiled into what we ship, for all platforms."""
    packages = {package["id"]: package for package in graph["packages"]}
    nodes = {node["id"]: node for node in graph["resolve"]["nodes"]}
    waiting = [key for key, package in packages.items() if package["name"] in SHIPPED and package["source"] is None]
    seen = set(waiting)
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            package = packages[dependency["pkg"]]
            is_built_in = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if (is_built_in or package["name"] in COMPILED_IN or "mlua" in package["name"]) and package[
                "id"
            ] not in seen:
                seen.add(package["id"])
                waiting.append(package["id"])
    found = (packages[key] for key in seen if packages[key]["source"] is not None)
    yield from sorted(found, key=lambda package: (package["name"], package["version"]))


def texts(package: dict[str, Any]) -> list[str]:
    """Returns the texts of a crate's licence files, or a standard text if it has none."""
    folder = Path(package["manifest_path"]).parent
    files = sorted(file for file in folder.rglob("*") if file.is_file() and NAMES.match(file.name) and is_text(file))
    if files:
        return [file.read_text(encoding="utf-8", errors="replace").strip() for file in files]
    return [standard_text(package)]


def standard_text(package: dict[str, Any]) -> str:
    """Returns the text of the licence that a crate names, for a crate that has no licence file."""
    names = ", ".join(author.partition(" <")[0] for author in package["authors"])
    authors = names or f"the authors of {package['name']}"
    if "MIT" in package["license"]:
        _, _, body = (ROOT / "LICENSE-MIT").read_text().partition("\n\n")
        _, _, terms = body.partition("\n\n")
        return f"MIT License\n\nCopyright (c) {authors}\n\n{terms.strip()}"
    if package["license"] == "MPL-2.0":
        return (
            "This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the\n"
            "MPL was not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/.\n"
            f"The source is at {package['repository']} and on crates.io, unchanged."
        )
    raise SystemExit(f"{package['name']} has no licence file, and no text is known here for {package['license']}")


def is_text(file: Path) -> bool:
    return file.suffix.lower() in ("", ".md", ".txt", ".mit", ".apache")


def collected() -> str:
    """Returns the text of THIRD-PARTY-LICENSES.txt: each licence text once, below the crates that have it."""
    users = defaultdict(list)
    for package in shipped(metadata()):
        for text in texts(package):
            users[text].append(f"{package['name']} {package['version']} ({package['license']})")
    parts = [HEAD]
    for text, crates in sorted(users.items(), key=lambda item: item[1]):
        parts.append("\n".join(["=" * 80, *crates, "-" * 80, text]))
    return "\n\n".join(parts) + "\n"


def main() -> int:
    text = collected()
    if "--check" not in sys.argv[1:]:
        FILE.write_text(text, encoding="utf-8")
        return 0
    if FILE.exists() and FILE.read_text(encoding="utf-8") == text:
        return 0
    print(f"{FILE.name} is not up to date: run ./ci/just third-party-licenses", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
