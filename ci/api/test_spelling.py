"""Tests that messages spell the names of options and methods as their language does."""

import inspect
import re
from pathlib import Path

import surface
from steadlock._options import _CHECKS, ClientOptions
from surface import ROOT
from tables import API

SOURCES = [ROOT / "core" / "protocol" / "src", ROOT / "core" / "protocol" / "lua", ROOT / "core" / "client" / "src"]
# Names in the messages of these sources are not translated, unlike those in the core's messages.
JAVASCRIPT = [
    ROOT / "bindings" / "node" / "src",
    ROOT / "bindings" / "wasm" / "src",
    ROOT / "packages" / "javascript" / "src",
    ROOT / "packages" / "node" / "src",
    ROOT / "packages" / "web" / "src",
]
SPELLING = ROOT / "bindings" / "javascript" / "src" / "spelling.rs"
OPTIONS = ROOT / "core" / "client" / "src" / "settings" / "options.rs"
# A token of Rust: a comment, a string, a character or a lifetime.
TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\br(?P<fence>\#*)"(?P<raw>.*?)"(?P=fence)|"(?P<text>(?:[^"\\]|\\.)*)"|'(?:\\[^']+|[^'\\])'|'\w+""",
    re.DOTALL,
)
# A string of TypeScript or Lua.
SCRIPT_LITERAL = re.compile(r"""'((?:\\.|[^'\\\n])*)'|"((?:[^"\\\n]|\\.)*)"|`([^`]*)`""")
SNAKE_CASE = re.compile(r"(?<![\w{%])[a-z]+(?:_[a-z]+)+\b(?!})")
# Parts of a URL, which have the same spelling in every language.
SAME_EVERYWHERE = {"sentinel_user", "sentinel_password"}
# Options of jobs, which JavaScript does not have yet.
OF_JOBS = {"at_least", "on_failure"}
# The groups of api.json with the names that messages tell programs to use.
GROUPS = {"Options", "Client", "How a lock is taken"}


def table() -> dict[str, set[str]]:
    """Returns the names of Python that have an underscore, each with the names in Node."""
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


def literals_of(folder: Path) -> list[str]:
    """Returns the strings in the sources of a folder, without its tests."""
    texts = []
    for file in sorted(folder.rglob("*")):
        if "tests" in file.parts or file.stem == "tests":
            continue
        if file.suffix == ".rs":
            code = file.read_text().split("#[cfg(test)]\nmod tests {")[0]
            texts += [token["raw"] or token["text"] or "" for token in TOKEN.finditer(code)]
        elif file.suffix in (".ts", ".lua"):
            code = re.sub(r"^\s*(?://|/?\*|--).*$", "", file.read_text(), flags=re.MULTILINE)
            texts += ["".join(parts) for parts in SCRIPT_LITERAL.findall(code)]
    return texts


def literals() -> list[str]:
    """Returns the strings of the core."""
    return [text for folder in SOURCES for text in literals_of(folder)]


def messages() -> list[str]:
    """Returns the strings of the core that are messages: those with a space."""
    return [text for text in literals() if " " in text]


def options() -> dict[str, str]:
    """Returns the options of a client by their names in the core's messages, each as JavaScript derives it."""
    names = re.findall(r"^    (\w+): .+ as \w+,$", OPTIONS.read_text(), re.MULTILINE)
    return {name.removesuffix("_ms"): re.sub(r"_(\w)", lambda letter: letter[1].upper(), name) for name in names}


def test_javascript_has_a_name_for_each_name_of_the_core() -> None:
    of_options = {core: node for core, node in options().items() if "_" in core}
    pairs = dict(re.findall(r'\("(\w+)", "(\w+)"\)', SPELLING.read_text())) | of_options
    assert pairs.keys() == table().keys()
    for core, node in pairs.items():
        assert node in table()[core], core


def test_python_and_javascript_have_each_option_of_the_core() -> None:
    """JavaScript takes every option that the core has, so its type must list them all."""
    servers, of_the_package = {"url", "primaries"}, {"program", "language", "log"}
    core = {core: node for core, node in options().items() if core not in servers | of_the_package}
    assert set(surface.node()["ConnectOptions"]) == set(core.values())
    # In Python each lock says whether its lease is renewed.
    assert ClientOptions.__optional_keys__ | {"lazy", "renew"} == core.keys()


def test_python_checks_and_documents_each_of_its_options() -> None:
    names = ClientOptions.__optional_keys__
    assert names - _CHECKS.keys() == {"address_map"}
    documented = set(re.findall(r"`(\w+)(?:=\w+)?`", inspect.getdoc(ClientOptions) or ""))
    assert names <= documented


def test_the_settings_read_each_option_of_the_core() -> None:
    """No compiler notices an option that they do not read."""
    names = re.findall(r"^    (\w+): .+ as \w+,$", OPTIONS.read_text(), re.MULTILINE)
    settings = (OPTIONS.parents[1] / "settings.rs").read_text()
    assert [name for name in names if not re.search(rf"\boptions\s*\.{name}\b", settings)] == []


def test_something_reads_each_property_of_spring() -> None:
    """No compiler notices a property without a step."""
    sources = {path.name: path.read_text() for path in (ROOT / "packages" / "spring").glob("*/src/main/**/*.java")}
    own = sources.pop("SteadlockProperties.java")
    components = re.search(r"record SteadlockProperties\((.*?)\) \{", own, re.DOTALL)
    steps = re.search(r"void addTo\(Steps steps\) \{(.*?)\n    \}", own, re.DOTALL)
    assert components
    assert steps
    elsewhere = "".join(sources.values())
    names = re.findall(r"(\w+),?$", components[1], re.MULTILINE)
    assert len(names) > 20
    unread = [name for name in names if f".{name}()" not in elsewhere and not re.search(rf"\b{name}\b", steps[1])]
    # Spring reads the settings of the annotation by their names.
    assert unread == ["annotation"]


def test_the_core_has_no_name_of_node_only() -> None:
    camel = {name for names in table().values() for name in names}
    words = {word for text in literals() for word in re.findall(r"\w+", text)}
    assert not words & camel


def test_every_name_in_a_message_is_in_the_table_or_alike_in_every_language() -> None:
    """Finds every word in snake case, also one that api.json does not have."""
    named = {word for text in messages() for word in SNAKE_CASE.findall(text)}
    assert named - table().keys() == SAME_EVERYWHERE | OF_JOBS


def test_no_part_of_a_message_is_a_name_of_another_language() -> None:
    """A message may be assembled from parts that have one word each."""
    others = {
        name
        for group in API["groups"]
        for concept in group["concepts"]
        for language in ("rust", "python", "jvm")
        if isinstance(concept[language], list)
        for name in concept[language]
        if "_" in name and name not in concept["node"]
    }
    words = {word for text in messages() for word in re.findall(r"\w+", text)}
    assert words & others <= table().keys()


def test_messages_of_the_javascript_package_use_names_of_javascript() -> None:
    texts = [text for folder in JAVASCRIPT for text in literals_of(folder)]
    assert len(texts) > 100
    found = {word for text in texts if " " in text for word in SNAKE_CASE.findall(text)}
    assert not found & table().keys()
