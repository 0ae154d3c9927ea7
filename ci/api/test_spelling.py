"""Messages spell the names of options and methods as their language does."""

import re

from surface import ROOT
from tables import API

SOURCES = [ROOT / "core" / "protocol" / "src", ROOT / "core" / "client" / "src"]
SPELLING = ROOT / "bindings" / "javascript" / "src" / "spelling.rs"
# A character, which may be a quotation mark, or a text.
LITERAL = re.compile(r"""'(?:\\.|[^'\\])'|"((?:[^"\\]|\\.)*)\"""")
# The types whose names a message tells a program to use.
GROUPS = {"Options", "Client", "How a lock is taken"}


def table() -> dict[str, set[str]]:
    """The names of Python that have an underscore, each with Node's."""
    names: dict[str, set[str]] = {}
    for group in API["groups"]:
        if group["title"] not in GROUPS:
            continue
        for concept in group["concepts"]:
            python, node = concept["python"], concept["node"]
            if isinstance(python, list) and isinstance(node, list):
                for name in python:
                    if "_" in name:
                        names.setdefault(name, set()).update(node)
    return names


def literals() -> list[str]:
    """The texts of the core, without those of its tests."""
    texts = []
    for folder in SOURCES:
        for file in sorted(folder.rglob("*.rs")):
            if "tests" in file.parts or file.stem == "tests":
                continue
            code = re.sub(r"^\s*//.*$", "", file.read_text().split("#[cfg(test)]\nmod tests {")[0], flags=re.MULTILINE)
            texts += [text for text in LITERAL.findall(code) if text]
    return texts


def test_javascript_has_its_own_name_for_each_of_the_cores() -> None:
    pairs = dict(re.findall(r'\("(\w+)", "(\w+)"\)', SPELLING.read_text()))
    assert pairs.keys() == table().keys()
    for core, node in pairs.items():
        assert node in table()[core], core


def test_the_core_has_no_name_that_is_nodes_alone() -> None:
    camel = {name for names in table().values() for name in names}
    words = {word for text in literals() for word in re.findall(r"\w+", text)}
    assert not words & camel


def test_every_option_that_a_message_names_is_in_the_table() -> None:
    named = {word for text in literals() if " " in text for word in re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", text)}
    options = {
        name
        for group in API["groups"]
        if group["title"] in GROUPS
        for concept in group["concepts"]
        if isinstance(concept["python"], list)
        for name in concept["python"]
    }
    assert named & options <= table().keys()
