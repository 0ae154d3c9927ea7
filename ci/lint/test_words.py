"""Tests of the phrases that words.py finds, and of those that it leaves alone."""

from pathlib import Path

import pytest

import words
from words import Hit, document_prose, python_literals, script_literals, string_literals

GLOSSARY = """
## Replaced words

| say | not |
|---|---|
| release | give back, Gives back |
| another owner's | another's |
"""
REPLACED = words.replaced_words(GLOSSARY)


def found(prose: str) -> list[Hit]:
    return list(words.hits(prose, REPLACED))


def test_the_table_says_what_replaces_each_phrase() -> None:
    assert REPLACED == {"give back": "release", "gives back": "release", "another's": "another owner's"}


def test_a_phrase_is_found_on_its_line_with_the_word_to_say() -> None:
    text = "# A lock\n\nGive back the lock.\nIt is another's."
    assert found(text) == [Hit(3, "Give back", "release"), Hit(4, "another's", "another owner's")]


def test_a_phrase_is_found_across_a_line_break() -> None:
    assert found("You give\nback the lock.") == [Hit(1, "give back", "release")]


@pytest.mark.parametrize("text", ["forgive back", "give backs", "give-back", "give the lock back"])
def test_other_words_are_left_alone(text: str) -> None:
    assert not found(text)


@pytest.mark.parametrize(
    "text",
    [
        "```sh\ngive back\n```",
        "Call `give back`.",
        "Call ``give ` back``, `give\nback`.",
        "[a link](give back)",
        "<!-- api:options -->\ngive back\n<!-- /api:options -->",
        "<!-- properties -->\ngive back\n<!-- end of properties -->",
    ],
)
def test_code_links_and_generated_tables_are_left_alone(text: str) -> None:
    assert not found(text)
    assert found(text + " Give back.")


def test_a_backtick_alone_does_not_hide_the_next_paragraph() -> None:
    assert found("A ` in the text.\n\ngive back `code`") == [Hit(3, "give back", "release")]


def test_a_changelog_is_checked_down_to_its_released_versions() -> None:
    text = "## [Unreleased]\n\ngive back\n\n## [0.1.0] - 2026-12-31\n\ngive back\n"
    assert found(document_prose(text)) == [Hit(3, "give back", "release")]


def test_the_string_literals_of_a_program_are_checked() -> None:
    rust = 'f("give back"); // "give back"\nlet mark = \'"\';\ng(r#"give "back" or give back"#, "give \\\n    back");\n'
    assert [hit.line for hit in found(string_literals(rust))] == [1, 3, 3]
    script = "f('give back', `give\nback`); // 'give back'\n/* \"give back\" */ give(back);\n"
    assert [hit.line for hit in found(script_literals(script))] == [1, 1]
    python = 'f("give back", f"{x} give back")  # "give back"\n"""give back"""\n'
    assert [hit.line for hit in found(python_literals(python))] == [1, 1, 2]


def test_no_word_to_say_is_replaced_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    replaced = words.replaced_words(words.GLOSSARY.read_text())
    assert len(replaced) > 20
    assert not [hit for instead in replaced.values() for hit in words.hits(instead, replaced)]


@pytest.mark.parametrize("pattern", sorted({pattern for pattern, _ in words.SOURCES}))
def test_there_are_files_of_each_pattern(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    assert words.listed(pattern)
