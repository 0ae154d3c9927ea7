"""Reads what the core has counted. The text is its own, in Prometheus' format 0.0.4."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias

Labels: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Family:
    """A metric, and its number for each set of labels; a histogram has none here."""

    meaning: str
    kind: str = ""
    numbers: dict[Labels, int] = field(default_factory=dict)


def families(text: str) -> dict[str, Family]:
    """All metrics of the text, by their names."""
    found: dict[str, Family] = {}
    # Not by `splitlines`: a label may have other ends of lines than this.
    for line in text.split("\n"):
        if line.startswith("# HELP "):
            _, _, name, meaning = line.split(" ", 3)
            found[name] = Family(meaning)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            found[name].kind = kind
        elif line and (family := found.get(re.split("[{ ]", line, maxsplit=1)[0])) is not None:
            labels, _, number = line.rpartition(" ")
            family.numbers[tuple((name, _unescaped(value)) for name, value in _LABEL.findall(labels))] = int(number)
    return found


def _unescaped(value: str) -> str:
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], value)


_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
