"""Tests of the readers of comments, and of the openings of sentences."""

from collections.abc import Callable

import pytest
from comments import (
    hash_comments,
    jvm_comments,
    lua_comments,
    python_comments,
    rust_comments,
    script_comments,
    sentences,
)
from openings import wrong_opening


def words(prose: str) -> list[tuple[int, str]]:
    """The lines that are not blank, with their numbers."""
    return [(number, line.strip()) for number, line in enumerate(prose.split("\n"), 1) if line.strip()]


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [
        (rust_comments, "//! A\n/// B\nlet c = 'x'; // C\n/* D */ let s: &'a str = \"// no\";", ["A", "B", "C", "D"]),
        (rust_comments, 'r#"// "no"#; let quote = \'"\'; // A\nb"\\"// no" // B', ["A", "B"]),
        (jvm_comments, '/** A */\nval x = """// "no\n"""\n/**\n * B\n */\nval c = \'"\' // C', ["A", "B", "C"]),
        (script_comments, "// A\nconst a = `// no`, b = '// no', c = /[/]\\/\\/ no/; /* B */", ["A", "B"]),
        (lua_comments, "-- A\nlocal x = '-- no' --[[ B\nC ]]\nlocal y = [[-- no]]", ["A", "B", "C"]),
        (python_comments, '"""A\nB."""\n\nTEXT = "# no"  # C\n#: D\n', ["A", "B.", "C", "D"]),
        (hash_comments, '#!/bin/sh\n# A\necho "# no" # neither\n  # B\n', ["/bin/sh", "A", "B"]),
    ],
)
def test_only_the_comments_of_a_source_are_left(read: Callable[[str], str], text: str, expected: list[str]) -> None:
    assert [line for _, line in words(read(text))] == expected


def test_a_comment_keeps_its_line() -> None:
    assert words(rust_comments("\n\n/* A\n\n B */\n// C")) == [(3, "A"), (5, "B"), (6, "C")]


def test_a_sentence_is_found_across_lines_and_on_the_line_on_which_it_begins() -> None:
    prose = "One sentence. Another\none. A third\n\n- an item\n- one more, e.g. this"
    assert [(line, text) for line, text, _ in sentences(prose)] == [
        (1, "One sentence."),
        (1, "Another one."),
        (2, "A third"),
        (4, "an item"),
        (5, "one more, e.g. this"),
    ]


@pytest.mark.parametrize(
    "text", ["What it costs.", "So many calls.", "Who waits.", "Of two.", "`That` fails.", "Those of it."]
)
def test_no_sentence_opens_with_a_clause(text: str) -> None:
    assert wrong_opening(text, is_first=True)
    assert wrong_opening(text, is_first=False)


def test_a_pronoun_needs_a_sentence_before_it() -> None:
    assert wrong_opening("It is released.", is_first=True) == "It"
    assert wrong_opening("It is released.", is_first=False) is None
    assert wrong_opening("Items are listed. Software. Office.", is_first=True) is None
