"""Packs the crates."""

import json
from collections.abc import Iterator
from pathlib import Path

from building import DIST, TARGET, run
from version import version

PUBLISHED = (
    "steadlock-collections",
    "steadlock-protocol",
    "steadlock-resp",
    "steadlock-store",
    "steadlock",
    "steadlock-cli",
)
#: The fields of a manifest that crates.io shows.
SHOWN = ("description", "license", "repository", "readme", "keywords", "categories")


def build(is_tried: bool) -> Iterator[tuple[Path, list[str]]]:
    """Packs the crates. Yields each with the checks that it passed. If `is_tried`, each is built from its package."""
    described = json.loads(run(["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"]))
    for package in described["packages"]:
        if package["name"] in PUBLISHED:
            missing = [key for key in SHOWN if not package[key]]
            assert not missing, f"{package['name']} does not say its {', '.join(missing)}"
            assert package["version"] == version()
    chosen = [word for name in PUBLISHED for word in ("--package", name)]
    # Without `is_tried`, changes that are not committed are packed too.
    tried = [] if is_tried else ["--no-verify", "--allow-dirty"]
    run(["cargo", "package", "--locked", "--quiet", "--target-dir", TARGET / "crates", *tried, *chosen])
    folder = DIST / "crates"
    folder.mkdir(parents=True, exist_ok=True)
    for name in PUBLISHED:
        crate = TARGET / "crates" / "package" / f"{name}-{version()}.crate"
        yield crate.rename(folder / crate.name), ["builds from the package"] if is_tried else []
