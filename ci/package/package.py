"""Builds what users install, checks it, and prints it as a table.

    package.py          for this machine
    package.py --all    for each platform of Linux, and the sources of the Python package

Everything is written to dist/. What is compiled is built apart from what the tests build.
"""

import argparse
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import command
import crates
import jars
import npm
import wheels
from building import DIST
from platforms import PLATFORMS, Platform, here


class Artefact(NamedTuple):
    """A line of the table."""

    file: Path
    platform: str
    checked: list[str]

    def row(self) -> tuple[str, str, str, str]:
        size = f"{self.file.stat().st_size / 1_000:,.0f} kB"
        return str(self.file.relative_to(DIST)), self.platform, size, ", ".join(self.checked)


def of_platform(platform: Platform) -> Iterator[Artefact]:
    """What is compiled for one."""
    if platform.libc == "musl":
        program = command.build(platform)
        yield Artefact(command.pack(program, platform), platform.npm, command.check(program, platform))
    library = npm.native(platform)
    yield Artefact(npm.build(platform, library), platform.npm, npm.check(library, platform))
    if jars.has_jar(platform):
        library = jars.native(platform)
        yield Artefact(jars.build_native(platform, library), jars.classifier(platform), jars.check(library, platform))
    built = wheels.build(platform)
    yield Artefact(built, platform.wheel, wheels.check(built, platform))


def of_all() -> Iterator[Artefact]:
    """What is the same everywhere."""
    yield Artefact(npm.main_package(), "any", [])
    yield from (Artefact(crate, "any", ["builds from the package"]) for crate in crates.build())
    yield from (Artefact(file, "any", checked) for file, checked in jars.build())


def show(rows: list[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Builds what users install, checks it, and prints it as a table.")
    parser.add_argument("--all", action="store_true", help="for each platform of Linux, not for this machine alone")
    chosen = parser.parse_args()
    shutil.rmtree(DIST, ignore_errors=True)
    platforms = PLATFORMS if chosen.all else (here("glibc"), here("musl"))
    built = [artefact for platform in platforms for artefact in of_platform(platform)]
    built += of_all()
    if chosen.all:
        built.append(Artefact(wheels.sources(), "any", ["twine"]))
    show([("artefact", "platform", "size", "checked"), *(artefact.row() for artefact in built)])


if __name__ == "__main__":
    main()
