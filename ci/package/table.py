"""The table of the artefacts, with their checks and the machines that they have run on. A file in dist/ keeps it
between programs."""

import json
from pathlib import Path
from typing import NamedTuple

from building import DIST

TABLE = DIST / "table.json"


class Artefact(NamedTuple):
    """A line of the table."""

    #: The path in dist/.
    name: str
    platform: str
    checked: list[str]
    #: The machines on which it was installed and run.
    ran: list[str]

    def row(self) -> tuple[str, ...]:
        size = f"{(DIST / self.name).stat().st_size / 1_000:,.0f} kB"
        return self.name, self.platform, size, ", ".join(self.checked), ", ".join(self.ran) or "not run"


def artefact(file: Path, platform: str, checked: list[str]) -> Artefact:
    return Artefact(file.relative_to(DIST).as_posix(), platform, checked, [])


def write(artefacts: list[Artefact]) -> None:
    TABLE.write_text(json.dumps([one._asdict() for one in artefacts], indent=2) + "\n")


def read() -> list[Artefact]:
    return parse(TABLE.read_text())


def parse(text: str) -> list[Artefact]:
    """Reads the table from the text of its file."""
    return [Artefact(**one) for one in json.loads(text)]


def ran(file: Path, where: str) -> None:
    """Records that a file of dist/ was installed and run."""
    name = file.relative_to(DIST).as_posix()
    artefacts = read()
    assert any(one.name == name for one in artefacts), f"{name} is no artefact"
    write([one._replace(ran=sorted({*one.ran, where})) if one.name == name else one for one in artefacts])


def show() -> None:
    rows = [("artefact", "platform", "size", "checked", "installed and run"), *(one.row() for one in read())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(), flush=True)
