"""Parses the metrics of the core, a text in Prometheus' format 0.0.4."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias

Labels: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Family:
    """A metric, and its number for each set of labels. For a histogram, no numbers are read."""

    meaning: str
    kind: str = ""
    numbers: dict[Labels, int] = field(default_factory=dict)


def families(text: str) -> dict[str, Family]:
    """Returns all metrics of the text, by name."""
    found: dict[str, Family] = {}
    # `splitlines` would be wrong here: a label can contain other characters that it counts as line ends.
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
