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
METADATA = ("description", "license", "repository", "readme", "keywords", "categories")


def build(with_builds: bool) -> Iterator[tuple[Path, list[str]]]:
    """Packs the crates. Yields each with its checks. With `with_builds`, each is built from its package."""
    described = json.loads(run(["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"]))
    for package in described["packages"]:
        if package["name"] in PUBLISHED:
            missing = [key for key in METADATA if not package[key]]
            assert not missing, f"{package['name']} does not say its {', '.join(missing)}"
            assert package["version"] == version()
    chosen = [word for name in PUBLISHED for word in ("--package", name)]
    # Without `with_builds`, changes that are not committed are packed too.
    options = [] if with_builds else ["--no-verify", "--allow-dirty"]
    run(["cargo", "package", "--locked", "--quiet", "--target-dir", TARGET / "crates", *options, *chosen])
    folder = DIST / "crates"
    folder.mkdir(parents=True, exist_ok=True)
    for name in PUBLISHED:
        crate = TARGET / "crates" / "package" / f"{name}-{version()}.crate"
        yield crate.rename(folder / crate.name), ["builds from the package"] if with_builds else []
