"""Checks the files and functions that an acquire and its answer pass, as ARCHITECTURE.md lists them.

    python ci/structure/walk.py

A row of the tables "down" and "back" names a file and the functions that the call or the answer passes there, in order.
A row is true if its file has all of these functions, and if the walk can go on from it. It can if a file up to this row
mentions the first function of the next row, which it calls; or if the file of the next row mentions a function of this
row, whose result it takes. Values, such as `instant.rs`, are no steps: the call does not pass through them. The numbers
of files in the document are checked, too.

The rows of the tables "grant" and "loss" name files and functions too. Only the names in these rows are checked.
"""

import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENT = ROOT / "ARCHITECTURE.md"
ROW = re.compile(r"^\| \d+ \| `([^`]+)` \| ((?:`\w+`(?:, )?)+) \|", re.MULTILINE)
OTHER_TABLES = ("grant", "loss")
MOST, MOST_IN_PROTOCOL = 30, 12


class Step(NamedTuple):
    """A file of the walk, and the functions through which the call passes in it."""

    file: str
    functions: list[str]


def walks(document: str) -> tuple[list[Step], list[Step]]:
    """Returns the steps down and those back."""
    down, _, back = document.partition("| down |")[2].partition("| back |")
    return steps(down), steps(back.partition("\n\n")[0])


def steps(table: str) -> list[Step]:
    return [Step(file, re.findall(r"`(\w+)`", functions)) for file, functions in ROW.findall(table)]


def errors(document: str, root: Path) -> list[str]:
    down, back = walks(document)
    found = []
    for walk in (down, back):
        texts = {step.file: text_of(root / step.file) for step in walk}
        for number, step in enumerate(walk):
            found += missing_functions(step, texts[step.file])
            for following in walk[number + 1 : number + 2]:
                calls = any(mentions(texts[before.file], following.functions[:1]) for before in walk[: number + 1])
                if not calls and not mentions(texts[following.file], step.functions):
                    found.append(f"no call leads from {step.file} to {following.functions[0]} of {following.file}")
    for name in OTHER_TABLES:
        for step in steps(document.partition(f"| {name} |")[2].partition("\n\n")[0]):
            found += missing_functions(step, text_of(root / step.file))
    files = {step.file for step in down + back}
    in_protocol = {file for file in files if file.startswith("core/protocol/")}
    parts = ({step.file for step in down}, {step.file for step in back}, files, in_protocol)
    counted = "{} files down, {} back, {} different, {} of them in `core/protocol`".format(*map(len, parts))
    if counted not in document:
        found.append(f"the walk has {counted}")
    if len(files) > MOST or len(in_protocol) > MOST_IN_PROTOCOL:
        found.append(f"the walk may have {MOST} different files, and {MOST_IN_PROTOCOL} in core/protocol")
    return found


def missing_functions(step: Step, text: str) -> list[str]:
    missing = (name for name in step.functions if not re.search(rf"\b(?:fn|def|function) {name}\b", text))
    return [f"{step.file} has no function {name}" for name in missing]


def text_of(file: Path) -> str:
    return file.read_text() if file.is_file() else ""


def mentions(text: str, functions: list[str]) -> bool:
    """Whether a text calls one of these functions."""
    calls = re.sub(r"\b(?:fn|def) \w+", "", text)
    return any(re.search(rf"\b{function}\b", calls) for function in functions)


def main() -> int:
    found = errors(DOCUMENT.read_text(), ROOT)
    for error in found:
        print(f"ARCHITECTURE.md: {error}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
