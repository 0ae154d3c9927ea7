"""Makes the tables of docs/ from api.json, times.json and metrics.json.

`python tables.py` writes them between their markers, `<!-- api:NAME -->` and `<!-- /api:NAME -->`.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent.parent / "docs"
PAGES = (DOCS / "api.md", DOCS / "guarantees.md", DOCS / "metrics.md")
LANGUAGES = {"rust": "Rust", "python": "Python", "node": "Node", "jvm": "Kotlin, Java"}

API: dict[str, Any] = json.loads((HERE / "api.json").read_text())
TIMES: dict[str, Any] = json.loads((HERE / "times.json").read_text())
METRICS: dict[str, Any] = json.loads((HERE / "metrics.json").read_text())


def cell(concept: dict[str, Any], language: str) -> str:
    names = concept[language]
    if isinstance(names, str):
        return f"*{names}*"
    text = ", ".join(f"`{name}`" for name in names)
    if twin := concept.get(f"{language}_blocking"):
        text += f"; blocking: {', '.join(f'`{name}`' for name in twin)}"
    return text


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(head)]
    lines.append(["---"] * len(lines[0]))
    lines.extend(list(row) for row in rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def group(title: str) -> str:
    """Returns the table that compares the languages for one group."""
    found = next(one for one in API["groups"] if one["title"] == title)
    defaults = found.get("has_defaults", False)
    heads = (f"{LANGUAGES[language]}: `{name}`" for language, name in found["types"].items())
    head = ["", *(["default"] if defaults else []), *heads]
    rows = (
        [one["what"], *([one["default"]] if defaults else []), *(cell(one, language) for language in LANGUAGES)]
        for one in found["concepts"]
    )
    return table(head, rows)


def groups() -> str:
    parts = []
    for one in API["groups"]:
        parts.append(f"## {one['title']}\n\n{group(one['title'])}")
        parts.extend(concept["note"] for concept in one["concepts"] if "note" in concept)
    return "\n\n".join(parts)


def options() -> str:
    """Returns the tables of the options that Python has as named arguments, of a client and of a lock. docs/api.md has
    the other languages, and the options that are set in another way."""
    parts = []
    for title, who in (("Options", "a client"), ("How a lock is taken", "a lock, or of one call")):
        found = next(one for one in API["groups"] if one["title"] == title)["concepts"]
        given = [one for one in found if one["default"] not in ("", "none") and not isinstance(one["python"], str)]
        rows = ([cell(one, "python"), one["what"], one["default"]] for one in given)
        parts.append(table([f"of {who}", "what", "default"], rows))
    return "\n\n".join(parts)


def constants() -> str:
    return table(["what", "how much"], ([one["what"], one["value"]] for one in TIMES["constants"]))


def values() -> str:
    rows = ([one["title"], ", ".join(f"`{value}`" for value in one["values"])] for one in API["values"])
    return table(["", "values; on the JVM constants in capitals"], rows)


def errors() -> str:
    def row(one: dict[str, str]) -> list[str]:
        kind = one["kind"]
        if "python_base" in one:
            hosts = [f"`{kind}Error` (a `{one['python_base']}`)", f"`{kind}Error`", f"`{kind}Exception`"]
        else:
            hosts = [", ".join(f"`{word}`" for word in one[host].split(", ")) for host in ("python", "node", "jvm")]
        return [one["what"], f"`{kind}`", *hosts]

    return table(["", *LANGUAGES.values()], map(row, API["errors"]))


def metrics(part: str = "client") -> str:
    def row(one: dict[str, Any]) -> list[str]:
        labels = ", ".join(f"`{label}`" for label in one["labels"])
        return [f"`{one['name']}`", one["type"], one["unit"], labels, one["meaning"]]

    return table(["name", "type", "unit", "labels", "meaning"], map(row, METRICS[part]))


def labels() -> str:
    def row(one: dict[str, Any]) -> list[str]:
        of = f" of `{one['of']}`" if "of" in one else ""
        return [f"`{one['name']}`{of}", ", ".join(f"`{value}`" for value in one["values"]), one["meaning"]]

    return table(["label", "values", "meaning"], map(row, METRICS["labels"]))


def spans() -> str:
    def row(one: dict[str, Any]) -> list[str]:
        return [f"`{one['name']}`", ", ".join(f"`{name}`" for name in one["attributes"]), one["meaning"]]

    return table(["span", "attributes", "meaning"], map(row, METRICS["spans"]))


def otel() -> str:
    def row(one: dict[str, Any]) -> list[str]:
        name, unit = one["otel"]
        return [f"`{name}`", f"`{unit}`", f"`{one['name']}`"]

    return table(["in OpenTelemetry", "unit", "in Prometheus"], map(row, METRICS["client"]))


MAKERS = {
    "groups": groups,
    "values": values,
    "errors": errors,
    "options": options,
    "constants": constants,
    "metrics": metrics,
    "server_metrics": lambda: metrics("server"),
    "labels": labels,
    "spans": spans,
    "otel": otel,
}


def filled(text: str) -> str:
    """Returns a page with up-to-date tables."""

    def fill(found: re.Match[str]) -> str:
        return f"{found[1]}\n\n{MAKERS[found[2]]()}\n\n{found[3]}"

    return re.sub(r"(<!-- api:(\w+) -->)\n.*?(<!-- /api:\2 -->)", fill, text, flags=re.DOTALL)


def main() -> None:
    for page in PAGES:
        page.write_text(filled(page.read_text()))


if __name__ == "__main__":
    main()
