"""Checks that the drawings of ARCHITECTURE.md are true. A drawing has layers of names, and no import may point from a
lower layer to a higher one. See README.md."""

import re
import tomllib
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from rust import Module, NotUnderstoodError, crates

# A line that has only these characters separates two layers.
ARROWS = " │▼"
# A line of a crate's drawing: names at the left, then their description after two spaces or more.
NAMED = re.compile(r" {2}(\S+(?: \S+)*)(?: {2,}(\S.*))?$")
CRATE = re.compile(r"\b(?:core|bindings|packages)/[\w-]+")

Numbered = list[tuple[int, str]]


class Name(NamedTuple):
    written: str
    level: int
    # The line number in the document.
    line: int

    @property
    def path(self) -> tuple[str, ...]:
        """The path of the module that the file or folder defines."""
        return ("crate", *self.written.removesuffix(".rs").strip("/").split("/"))

    def is_in(self, root: Path) -> bool:
        file = root / self.written
        if self.written.endswith((".rs", "/")):
            return file.exists()
        # A module in a folder is drawn without an ending, such as `machines/waiters`.
        return "/" in self.written and (file.is_dir() or file.with_suffix(".rs").exists())


def has_house(document: Path, root: Path) -> bool:
    return heading_of(root) in document.read_text().splitlines()


def house(document: Path, root: Path) -> Iterator[str]:
    """Yields each contradiction between the drawing of a crate and the imports in its `src`."""
    drawn = names(block(document, heading_of(root)), names_of_house)
    levels: dict[tuple[str, ...], Name] = {}
    for name in drawn:
        if not name.is_in(root):
            yield f"{document}:{name.line}: {name.written} is no module of {root}"
        elif name.path in levels:
            yield f"{document}:{name.line}: {name.written} is drawn already, in line {levels[name.path].line}"
        else:
            levels[name.path] = name

    def place_of(module: Module) -> Name | None:
        """Returns the place of the nearest drawn file or folder around a module. The crate's root has none."""
        ends = range(len(module.path), 1, -1)
        return next((levels[module.path[:end]] for end in ends if module.path[:end] in levels), None)

    for crate in crates(root):
        for module, imports in crate.imports().items():
            own = place_of(module)
            if len(module.path) == 2 and not own:
                yield f"{module.file}:1: {module} stands in no layer of {document}:{drawn[0].line}"
            for imported, place in imports.items():
                other = place_of(imported)
                if own and other and other.level < own.level:
                    yield (
                        f"{place} points up: {own.written} is drawn below {other.written}, "
                        f"in lines {own.line} and {other.line} of {document}"
                    )


def all_crates(document: Path, folders: list[Path]) -> Iterator[str]:
    """Yields each contradiction between the drawing of the crates and their manifests.

    A crate may depend on crates of its own layer and of the next one. For a crate that is not drawn, the text below the
    drawing must list the dependencies, in sentences that begin with the crate's name."""
    lines = block(document, "# Architecture")
    levels = {name.written: name for name in names(lines, CRATE.findall)}
    for name in levels.values():
        if not Path(name.written).is_dir():
            yield f"{document}:{name.line}: {name.written} is no folder"
    packages = {manifest(folder)["package"]["name"]: str(folder) for folder in folders}
    below = document.read_text().splitlines()[lines[-1][0] + 1 :]
    sentences = re.split(r"(?<=\.)\s+", "\n".join(takewhile(is_no_heading, below)))
    for folder in map(str, folders):
        used_names = {
            name
            for sentence in sentences
            if sentence.startswith(f"`{folder}`")
            for name in CRATE.findall(sentence)
            if name != folder
        }
        used = {packages[name]: line for name, line in dependencies(Path(folder)) if name in packages}
        for other, line in used.items():
            place = f"{folder}/Cargo.toml:{line}: {folder} depends on {other}"
            if folder in levels and other in levels:
                step = levels[other].level - levels[folder].level
                if step < 0:
                    yield f"{place}, which {document} draws above it"
                elif step > 1:
                    yield f"{place}, which {document} draws {step} levels below it"
            elif other not in used_names:
                yield f"{place}, and {document} does not say so"
        for other in sorted(used_names - used.keys()):
            yield f"{document}: {folder} does not depend on {other}"


def heading_of(root: Path) -> str:
    return f"## The house of `{root.parent}`"


def block(document: Path, heading: str) -> Numbered:
    """Returns the lines of the first fenced block under a heading."""
    lines = document.read_text().splitlines()
    start = lines.index(heading) + 1 if heading in lines else len(lines)
    section = list(enumerate(takewhile(is_no_heading, lines[start:]), start + 1))
    fences = [at for at, (_, text) in enumerate(section) if text.startswith("```")]
    if len(fences) < 2:
        raise NotUnderstoodError(f"{document} has no drawing under {heading}")
    return section[fences[0] + 1 : fences[1]]


def is_no_heading(text: str) -> bool:
    return not text.startswith("#")


def names(lines: Numbered, names_in: Callable[[str], list[str]]) -> list[Name]:
    """Returns the names of a drawing, each with its layer, counted from the top."""
    found: list[Name] = []
    level = 0
    for number, line in lines:
        if line.strip(ARROWS):
            found += [Name(written, level, number) for written in names_in(line)]
        elif found:
            level = found[-1].level + 1
    return found


def names_of_house(line: str) -> list[str]:
    """Returns the names in a line of a crate's drawing. `machines/    waiters · holds` has the folder and both modules.
    A line that has only text has none."""
    match = NAMED.match(line)
    if not match:
        return []
    folders, text = re.split(",? ", match[1]), match[2] or ""
    if folders[-1].endswith("/") and " · " in text:
        folders += [f"{folders[-1]}{item.split()[0]}" for item in text.split(" · ")]
    return folders


def manifest(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "Cargo.toml").read_text())


def dependencies(folder: Path) -> Iterator[tuple[str, int]]:
    """Yields the dependencies of a crate and their lines in its manifest, except those that only its tests use."""
    tables = [manifest(folder), *manifest(folder).get("target", {}).values()]
    lines = (folder / "Cargo.toml").read_text().splitlines()
    for table in tables:
        for kind in ("dependencies", "build-dependencies"):
            for name, wanted in table.get(kind, {}).items():
                is_it = re.compile(rf'(\[[\w.-]*dependencies\.)?"?{re.escape(name)}"?[\].\s=]')
                line = next((number for number, text in enumerate(lines, 1) if is_it.match(text)), 1)
                yield (wanted.get("package", name) if isinstance(wanted, dict) else name), line
