"""Checks the structure of our sources: circles of imports, long files, open fields of machines, and drawings of
ARCHITECTURE.md that are not true. See README.md.

structure.py            checks the folders that structure.toml lists
structure.py ROOT...    runs every check on these folders, listed or not; ROOT is written as in structure.toml
"""

import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import drawings
from rust import Import, Module, NotUnderstoodError, crates

HERE = Path(__file__).resolve().parent
SOURCES = {".rs", ".py", ".ts", ".mts", ".js", ".mjs", ".java", ".kt"}

Edges = Mapping[Module, Mapping[Module, Import]]


def circles(root: Path) -> Iterator[str]:
    """Yields the shortest circle of each group of modules that all import each other, directly or indirectly."""
    for crate in crates(root):
        edges = {module: without_parent(module, imports) for module, imports in crate.imports().items()}
        for group in groups(edges):
            circle = shortest_circle(edges, group)
            drawn = " → ".join(str(module) for module in (*circle, circle[0]))
            more = f" (one of the circles among {len(group)} modules)" if len(group) > len(circle) else ""
            steps = zip(circle, (*circle[1:], circle[0]), strict=True)
            places = [f"\n  {edges[module][imported]}" for module, imported in steps]
            yield f"{root}: a circle of imports: {drawn}{more}{''.join(places)}"


def without_parent(module: Module, imports: Mapping[Module, Import]) -> dict[Module, Import]:
    """Returns the imports without those of the parent: a file and the files in its folder are one module to others, and
    the parts use the types of the whole. The root of a crate is no such parent."""
    parent = str(module).rpartition("::")[0]
    return {other: place for other, place in imports.items() if "::" not in parent or str(other) != parent}


def groups(edges: Edges) -> list[set[Module]]:
    """Returns the modules of all circles in groups. Two circles that share a module are in one group."""
    reached = {module: set(reach(edges, module)) for module in edges}
    found: list[set[Module]] = []
    for module in edges:
        if module in reached[module] and not any(module in group for group in found):
            found.append({other for other in reached[module] if module in reached[other]})
    return found


def reach(edges: Edges, start: Module) -> dict[Module, Module]:
    """Returns the modules that a module imports directly or indirectly, nearest first, each with its importer."""
    importer = dict.fromkeys(edges[start], start)
    waiting = list(importer)
    for module in waiting:
        for imported in edges[module]:
            if imported not in importer:
                importer[imported] = module
                waiting.append(imported)
    return importer


def shortest_circle(edges: Edges, group: set[Module]) -> list[Module]:
    found = []
    for start in sorted(group, key=str):
        importer = reach(edges, start)
        circle = [start]
        while (module := importer[circle[0]]) is not start:
            circle.insert(0, module)
        found.append([start, *circle[:-1]])
    return min(found, key=len)


def long_files(root: Path, most: int) -> Iterator[str]:
    for file in sorted(root.rglob("*")):
        if file.suffix in SOURCES and (lines := file.read_bytes().count(b"\n")) > most:
            yield f"{file}: {lines} lines; {most} is the most"


def open_machines(part: Path) -> Iterator[str]:
    """Yields the open fields of the machines in a file or folder. Methods of a machine can be anywhere in the crate."""
    root = next((folder for folder in (part, *part.parents) if is_crate(folder)), None)
    if not root:
        raise NotUnderstoodError(f"{part} is in no crate")
    for crate in crates(root):
        for machine in crate.machines():
            file = machine.module.file
            if file.is_relative_to(part):
                for name, line in machine.open_fields:
                    yield f"{file}:{line}: the field {name} of the machine {machine.name} is open"


def is_crate(folder: Path) -> bool:
    return any((folder / start).exists() for start in ("lib.rs", "main.rs"))


def listed(patterns: list[str]) -> Iterator[Path]:
    for pattern in patterns:
        found = sorted(Path().glob(pattern))
        if not found:
            raise NotUnderstoodError(f"{pattern} of structure.toml is not there")
        yield from found


def errors(roots: list[str]) -> Iterator[str]:
    settings = tomllib.loads((HERE / "structure.toml").read_text())
    for root in listed(roots or settings["circles"]["roots"]):
        yield from circles(root)
    for root in listed(roots or settings["files"]["roots"]):
        yield from long_files(root, settings["files"]["most_lines"])
    for part in listed(roots or settings["machines"]["parts"]):
        yield from open_machines(part)
    document = Path(settings["drawings"]["document"])
    if not roots:
        yield from drawings.all_crates(document, list(listed(settings["drawings"]["crates"])))
    for root in listed(roots or settings["drawings"]["houses"]):
        if not roots or drawings.has_house(document, root):
            yield from drawings.house(document, root)


def main() -> int:
    os.chdir(HERE.parent.parent)
    count = 0
    try:
        for error in errors(sys.argv[1:]):
            count += 1
            print(error, file=sys.stderr)
    except NotUnderstoodError as failure:
        print(failure, file=sys.stderr)
        return 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
