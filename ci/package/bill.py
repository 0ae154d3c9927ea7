"""Writes software bills of materials (CycloneDX) of the crates that are built into a native library."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from building import TARGET, commit_moment, run
from version import version


def crates(package: str, triple: str = "") -> Iterator[dict[str, Any]]:
    """Yields the third-party crates in the build of a workspace package, for this machine or for a target triple."""
    words = ["cargo", "tree", "--locked", "--package", package, *(["--target", triple] if triple else [])]
    words += ["--prefix", "none", "--no-dedupe", "--format", "{p} {l}", "--edges"]
    compiled = run([*words, "normal,no-proc-macro"]).splitlines()
    # lua-src is only a build dependency, but it compiles Lua into the result.
    compiled += [line for line in run([*words, "normal,build"]).splitlines() if line.startswith("lua-src ")]
    for line in sorted(set(compiled)):
        found = re.fullmatch(r"(\S+) v(\S+) (?!\()(.+)", line)
        if found:
            name, number, licence = found.groups()
            purl = f"pkg:cargo/{name}@{number}"
            component = {"type": "library", "bom-ref": purl, "name": name, "version": number, "purl": purl}
            yield component | {"licenses": [{"expression": licence.replace("/", " OR ")}]}


def dependencies(components: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns an entry without dependencies for each component, because the library depends on all of them directly."""
    return [{"ref": component["bom-ref"], "dependsOn": []} for component in components]


def stamp() -> str:
    """Returns the time of a bill. It is the time of the commit, so that two builds of a commit are identical."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", commit_moment())


def wheel_bom(package: str, triple: str = "") -> Path:
    """Writes the bill for a wheel with the native library of a package, and returns its path."""
    purl = f"pkg:pypi/steadlock@{version()}"
    ours = {"type": "library", "bom-ref": purl, "name": "steadlock", "version": version(), "purl": purl}
    components = list(crates(package, triple))
    depends = {"ref": purl, "dependsOn": [component["bom-ref"] for component in components]}
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": stamp(),
            "component": ours | {"licenses": [{"expression": "MIT OR Apache-2.0"}]},
        },
        "components": components,
        "dependencies": [depends, *dependencies(components)],
    }
    written = TARGET / "bills" / triple / f"{package}.cyclonedx.json"
    written.parent.mkdir(parents=True, exist_ok=True)
    written.write_text(json.dumps(bom, indent=2) + "\n")
    return written
