"""Builds the packages for users, checks them, and prints a table of them.

    package.py                   builds for this machine
    package.py --tested          does the same without libraries for musl: what a machine with glibc can run, for CI
    package.py --all             builds for each platform of Linux, with the sources of the Python package; builds each
                                 crate from its package; then installs and runs everything
    package.py --all --unused    does the same without installing and running

Everything is written to dist/.
"""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import checks
import command
import crates
import jars
import npm
import starters
import table
import wheels
from building import DIST
from platforms import PLATFORMS, Platform, this_platform
from table import Artefact, artefact


def command_artefact(platform: Platform) -> Artefact:
    """Builds the command, which runs with any C library."""
    program = command.build(platform)
    return artefact(command.pack(program, platform), platform.npm, command.check(program, platform))


def library_artefacts(platform: Platform) -> Iterator[Artefact]:
    """Builds the artefacts with native libraries of one platform."""
    library = npm.native(platform)
    yield artefact(npm.build(platform, library), platform.npm, checks.library(library, platform))
    if platform.has_jar:
        library = jars.native(platform)
        jar = jars.build_native(platform, library)
        yield artefact(jar, jars.classifier(platform), checks.library(library, platform))
    built = wheels.build(platform)
    yield artefact(built, platform.wheel, wheels.check(built, platform))


def all_artefacts(with_crate_builds: bool) -> Iterator[Artefact]:
    """Builds the artefacts that are the same for every platform."""
    for packed in (npm.main_package(), npm.web_package()):
        yield artefact(packed, "any", npm.check_packed(packed))
    for built in (crates.build(with_crate_builds), jars.build(), starters.build()):
        yield from (artefact(file, "any", checked) for file, checked in built)


def main() -> None:
    parser = argparse.ArgumentParser(description="Builds what users install, checks it, and prints it as a table.")
    parser.add_argument("--all", action="store_true", help="for each platform of Linux, not for this machine alone")
    parser.add_argument("--unused", action="store_true", help="install and run nothing of what was built")
    parser.add_argument("--tested", action="store_true", help="build no library for musl")
    chosen = parser.parse_args()
    shutil.rmtree(DIST, ignore_errors=True)
    platforms = PLATFORMS if chosen.all else (this_platform("glibc"), this_platform("musl"))
    built = [command_artefact(platform) for platform in platforms if platform.libc == "musl"]
    for platform in platforms:
        if platform.libc == "glibc" or not chosen.tested:
            built += library_artefacts(platform)
    built += all_artefacts(with_crate_builds=chosen.all)
    if chosen.all:
        built.append(artefact(wheels.sources(), "any", ["twine"]))
    table.write(built)
    status = 0
    if chosen.all and not chosen.unused:
        status = subprocess.run([sys.executable, "-m", "pytest", Path(__file__).parent], check=False).returncode
    table.show()
    sys.exit(status)


if __name__ == "__main__":
    main()
