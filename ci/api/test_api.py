"""Tests that api.json has every public name of every language, and that every name there exists."""

import re
from typing import get_args

import pytest

import steadlock
import surface
import tables
from surface import ROOT, Surface
from tables import API, LANGUAGES, PAGES, TIMES

READERS = {
    "rust": surface.rust,
    "rust_blocking": surface.rust_blocking,
    "python": surface.python,
    "python_aio": surface.python_aio,
    "node": surface.node,
    "jvm": surface.jvm,
}
# The types that the blocking module does not have, because it shares them with the async one.
SHARED = {"rust_blocking": {"Builder", "Error"}}


def documented(reader: str) -> Surface:
    """Returns the names that api.json has, by type."""
    language = reader.partition("_")[0]
    names: Surface = {}
    for group in API["groups"]:
        type_ = group["types"][language]
        for concept in group["concepts"]:
            cell = concept.get(reader, concept[language])
            if isinstance(cell, list):
                names.setdefault(type_, set()).update(cell)
    for type_ in SHARED.get(reader, ()):
        names.pop(type_, None)
    return names


def differences(found: Surface, wanted: Surface) -> list[str]:
    """Returns a line for each name that only one of the two surfaces has."""
    lines = []
    for type_, names in wanted.items():
        has = found.get(type_, set())
        lines += [f"{type_} has no {name}" for name in sorted(names - has)]
        lines += [f"{type_}.{name} is not in api.json" for name in sorted(has - names)]
    return lines


def built(reader: str) -> Surface:
    found = READERS[reader]()
    if reader == "rust_blocking":
        # A blocking lease does not implement `Drop`, because the async lease in it is dropped.
        found["Lease"].add("drop")
    return found


@pytest.mark.parametrize("reader", READERS)
def test_every_public_name_is_in_the_table_and_every_name_there_exists(reader: str) -> None:
    assert differences(built(reader), documented(reader)) == []


@pytest.mark.parametrize("reader", READERS)
def test_a_name_missing_from_the_table_or_from_the_code_is_found(reader: str) -> None:
    wanted = built(reader)
    found = {type_: set(names) for type_, names in wanted.items()}
    (lease,) = {group["types"][reader.partition("_")[0]] for group in API["groups"] if group["title"] == "Lease"}
    found[lease].add("steal")
    found[lease].remove("token")
    assert differences(found, wanted) == [f"{lease} has no token", f"{lease}.steal is not in api.json"]


def test_every_cell_has_names_or_names_a_substitute() -> None:
    for group in API["groups"]:
        for concept in group["concepts"]:
            for language in LANGUAGES:
                assert concept[language], f"{group['title']}, {concept['what']}: {language} is empty"


@pytest.mark.parametrize("module", [steadlock, steadlock.aio])
def test_python_makes_every_kind_of_lock_with_the_same_arguments(module: object) -> None:
    factories = surface.python_factories(module)  # type: ignore[arg-type]
    fencing = {"fencing"}
    assert factories.pop("semaphore") == factories.pop("multi_lock") == factories["lock"] - fencing
    assert len({frozenset(arguments) for arguments in factories.values()}) == 1


def test_states_and_outcomes_are_spelled_alike_everywhere() -> None:
    rust = (ROOT / "core" / "protocol" / "src" / "ending.rs").read_text()
    for one in API["values"]:
        values = one["values"]
        body = re.search(rf"impl {one['rust']} \{{(.*?)\n\}}", rust, re.DOTALL)
        assert body
        assert re.findall(r'Self::\w+ => "(\w+)"', body[1]) == values
        assert list(get_args(getattr(steadlock, one["python"]))) == values
        assert re.findall(r"'(\w+)'", surface.node_declaration(one["node"])) == values
        assert {name.lower() for name in surface.jvm_members(one["jvm"]) if name.isupper()} == set(values)


def test_error_kinds_are_the_same_everywhere() -> None:
    rust = (ROOT / "core" / "protocol" / "src" / "error.rs").read_text()
    kinds = [one["kind"] for one in API["errors"]]
    body = re.search(r"impl ErrorKind \{(.*?)\n\}", rust, re.DOTALL)
    assert body
    assert re.findall(r'Self::\w+ => "(\w+)"', body[1]) == kinds
    assert sorted(re.findall(r"'(\w+)'", surface.node_declaration("ErrorKind"))) == kinds

    raised = [one for one in API["errors"] if "python_base" in one]
    classes = {f"{one['kind']}Error" for one in raised} | {"SteadlockError"}
    assert {name for name in steadlock.__all__ if name.endswith("Error")} == classes
    assert {name for name in surface.node_exports() if name.endswith("Error")} == classes
    thrown = {path.stem for path in (surface.JVM / "io" / "github" / "steadlock").glob("*Exception.class")}
    assert thrown == {f"{one['kind']}Exception" for one in raised} | {"SteadlockException"}
    for one in raised:
        bases = [base.__name__ for base in getattr(steadlock, f"{one['kind']}Error").__bases__]
        assert bases == ["SteadlockError", one["python_base"]]


@pytest.mark.parametrize("part", ["constants", "defaults"])
def test_times_and_defaults_are_those_of_the_source(part: str) -> None:
    for one in TIMES[part]:
        text = (ROOT / one["file"]).read_text()
        for line in one["lines"]:
            assert line in text, f"{one['what']}: {one['file']} does not say {line!r}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tables_of_the_docs_are_up_to_date(page: object) -> None:
    text = page.read_text()  # type: ignore[attr-defined]
    assert "<!-- api:" in text
    assert tables.filled(text) == text, "run ./ci/just api-tables"
