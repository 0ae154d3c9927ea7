"""Finds modules of a Python package that import one another in a circle.

    python ci/lint/imports.py FOLDER...     the folders of the packages

Imports for types alone count, and so do imports inside of functions and in stubs (`.pyi`). `from package import name`
imports the module of that name if there is one, else the package. Before a module Python imports its parent packages;
these imports do not count.
"""

import ast
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path


def modules(folder: Path) -> dict[str, Path]:
    """The files of all modules in the folder, by their dotted names."""
    files = sorted(file for file in folder.rglob("*.py*") if file.suffix in (".py", ".pyi"))
    return {".".join(file.relative_to(folder).with_suffix("").parts).removesuffix(".__init__"): file for file in files}


def imported(name: str, file: Path, known: dict[str, Path]) -> Iterator[tuple[str, int]]:
    """The modules that a module imports, each with the line."""
    package = name if file.stem == "__init__" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_text(), file)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                member = f"{source}.{alias.name}"
                if member in known or source in known:
                    yield (member if member in known else source), node.lineno


def circle(folder: Path) -> list[str]:
    """A circle in the folder, each of its imports with its file and line; empty if there is none."""
    known = modules(folder)
    lines = {
        name: {target: line for target, line in imported(name, file, known) if target != name}
        for name, file in known.items()
    }
    try:
        TopologicalSorter(lines).prepare()
    except CycleError as error:
        # Each module of this path is imported by the next one.
        path: list[str] = error.args[1]
        pairs = zip(path[1:], path[:-1], strict=True)
        return [f"{known[name]}:{lines[name][target]}: {name} imports {target}" for name, target in pairs]
    return []


if __name__ == "__main__":
    found = [line for folder in sys.argv[1:] for line in circle(Path(folder))]
    if found:
        sys.exit("\n".join(["These modules import one another in a circle:", *found]))
