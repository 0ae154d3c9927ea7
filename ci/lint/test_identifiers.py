"""Tests of the identifiers that identifiers.py finds, and of those that it leaves alone."""

from collections.abc import Callable
from pathlib import Path

import identifiers
import pytest
from comments import jvm_code, lua_code, rust_code, script_code
from identifiers import finder, names_in_python, names_in_shell, words_of, wrong_names

import words

FIND = finder("""
## Replaced words

| say | not |
|---|---|
| release | give back, gives back |

### In identifiers

| say | not |
|---|---|
| report | told |
""")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("is_told", "is told"),
        ("isTold", "is told"),
        ("IS_TOLD", "is told"),
        ("HTTPServer2", "http server 2"),
        ("__init__", "init"),
        ("core/told_at", "core told at"),
    ],
)
def test_an_identifier_is_read_as_its_words(name: str, expected: str) -> None:
    assert words_of(name) == expected


@pytest.mark.parametrize("name", ["told", "isTold", "TOLD_AT", "a_waiter_is_told", "GivesBack", "give_back_twice"])
def test_a_replaced_phrase_is_found_in_any_spelling(name: str) -> None:
    assert FIND(name)


@pytest.mark.parametrize("name", ["untolded", "give_it_back", "toldest", "giveback"])
def test_other_identifiers_are_left_alone(name: str) -> None:
    assert not FIND(name)


@pytest.mark.parametrize(
    ("code_of", "text"),
    [
        (rust_code, '// told\nlet a = "told"; /* told */ let b = r#"told"#;'),
        (jvm_code, '/** told */ val a = """told"""; // told'),
        (script_code, "// told\nconst a = `told`, b = 'told', c = /told/;"),
        (lua_code, "-- told\nlocal a = 'told' --[[ told ]]"),
    ],
)
def test_comments_and_literals_are_not_read(code_of: Callable[[str], str], text: str) -> None:
    assert "told" not in code_of(text)
    assert "a" in code_of(text)


def test_python_is_read_by_its_tokens() -> None:
    found = names_in_python('"""told"""\n# told\nis_told = "told"\n')
    assert list(found) == [(3, "is_told")]


def test_a_shell_script_is_read_for_its_variables_and_functions() -> None:
    text = '# told\ntold=1\necho told "$a ${b}"\nf() {\n  true\n}\n'
    assert list(names_in_shell(text)) == [(2, "told"), (3, "a"), (3, "b"), (4, "f")]


def test_an_identifier_is_found_once_with_its_first_line_and_so_is_the_name_of_its_file() -> None:
    names = iter([(2, "isTold"), (3, "isTold"), (4, "other")])
    found = wrong_names(Path("src/told.rs"), names, FIND)
    assert [(name, hit.line, hit.instead) for name, hit in found] == [
        ("src/told", 1, "report"),
        ("isTold", 2, "report"),
    ]


def test_a_word_is_allowed_only_below_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identifiers, "ALLOWED", {("a/b", "told"): "a name of another project"})
    assert not list(wrong_names(Path("a/b/c.py"), iter([(1, "told")]), FIND))
    assert list(wrong_names(Path("a/c.py"), iter([(1, "told")]), FIND))


def test_each_allowed_word_is_replaced_and_its_folder_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    find = finder(words.GLOSSARY.read_text())
    assert all(find(word) and Path(folder).is_dir() for folder, word in identifiers.ALLOWED)


@pytest.mark.parametrize("pattern", [pattern for pattern, _ in identifiers.SOURCES])
def test_there_are_files_of_each_pattern(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    assert words.listed(pattern)
