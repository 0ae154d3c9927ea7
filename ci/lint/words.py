"""Finds words that the project has replaced, in documents, comments and the texts that programs write.

    python ci/lint/words.py [FILE...]     without files, all that git lists

The table "Replaced words" of docs/glossary.md says which word to use, and what it replaces. A phrase is found as whole
words, in upper and lower case, and across line breaks. Code is not checked: fenced blocks, code spans, targets of
links. Tables that are made from code and the released versions of a changelog are not checked either. In programs, the
comments and string literals are checked.
"""

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import comments
from comments import blank

GLOSSARY = Path("docs/glossary.md")
HEADING = "## Replaced words"


class Hit(NamedTuple):
    """A replaced phrase, the line on which it begins, and what to say instead."""

    line: int
    phrase: str
    instead: str


def replaced_words(glossary: str, heading: str = HEADING) -> dict[str, str]:
    """Each replaced phrase of a table of the glossary, in lower case, with what to say instead."""
    table = glossary.partition(heading)[2].partition("|---|---|\n")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return {phrase.strip().lower(): instead for instead, phrases in rows for phrase in phrases.split(",")}


CODE = re.compile(
    r"^ *(?P<fence>```|~~~).*?^ *(?P=fence)"
    r"|(?P<ticks>`+)(?!`)(?:(?!\n\s*\n).)*?(?<!`)(?P=ticks)(?!`)"
    r"|\]\([^)\n]*\)"
    r"|<!-- (?P<table>api:\w+|properties) -->.*?<!-- (?:/|end of )(?P=table) -->",
    re.DOTALL | re.MULTILINE,
)
RELEASED = re.compile(r"^## \[\d.*", re.DOTALL | re.MULTILINE)


def document_prose(text: str) -> str:
    """The text of a document, without the released versions of a changelog."""
    return RELEASED.sub(lambda versions: blank(versions[0]), text)


def strings(quotations: str) -> re.Pattern[str]:
    """Returns the pattern of a string literal, or of the text between two. Comments and characters of Rust are part of
    that text, because they may have quotation marks."""
    return re.compile(
        rf"""(?P<other>[^{quotations}'/r]+|//[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\\n])')"""
        rf"""|(?P<raw>\br(?P<signs>\#*)")(?P<rough>.*?)"(?P=signs)"""
        rf"""|(?P<mark>[{quotations}])(?P<plain>(?:\\.|(?!(?P=mark))[^\\])*)(?P=mark)|.""",
        re.DOTALL,
    )


STRINGS = strings('"')
STRINGS_OF_SCRIPTS = strings("\"'`")


def string_literals(text: str, literals: re.Pattern[str] = STRINGS) -> str:
    """The string literals."""

    def prose(found: re.Match[str]) -> str:
        if found["plain"] is not None:
            # A backslash at the end of a line continues the literal on the next line.
            return " " + found["plain"].replace("\\\n", " \n") + " "
        if found["rough"] is not None:
            signs = found["signs"]
            return blank(found["raw"]) + found["rough"] + blank('"' + signs)
        return blank(found[0])

    return literals.sub(prose, text)


def script_literals(text: str) -> str:
    """The string literals of TypeScript."""
    return string_literals(text, STRINGS_OF_SCRIPTS)


def python_literals(text: str) -> str:
    """The string literals of Python, docstrings too."""
    lines = [""] * (text.count("\n") + 1)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING:
            # Several literals may begin on one line.
            for number, part in enumerate(token.string.split("\n"), token.start[0] - 1):
                lines[number] += " " + part
    return "\n".join(lines)


# The files to check, as patterns of git, each with the function that returns its prose.
SOURCES: list[tuple[str, Callable[[str], str]]] = [
    ("*.md", document_prose),
    *comments.SOURCES,
    ("core/client/src/*.rs", string_literals),
    ("core/protocol/src/*.rs", string_literals),
    ("core/cli/src/*.rs", string_literals),
    ("bindings/*.rs", string_literals),
    ("packages/python/src/*.py", python_literals),
    ("packages/*/src/*.ts", script_literals),
    ("packages/*/src/*.mts", script_literals),
    ("packages/*/src/main/*.kt", string_literals),
    ("packages/*/src/main/*.java", string_literals),
]


def listed(pattern: str) -> list[Path]:
    """The files of this pattern that git lists."""
    found = subprocess.run(["git", "ls-files", "--", pattern], check=True, capture_output=True, text=True)
    return [Path(line) for line in found.stdout.splitlines() if not is_generated(line)]


def is_generated(file: str) -> bool:
    return "/uniffi/" in file


def hits(prose: str, words: dict[str, str]) -> Iterator[Hit]:
    """The replaced phrases in this prose. If two begin at one place, the longer one is returned."""
    prose = CODE.sub(lambda code: blank(code[0]), prose)
    phrases = (r"\s+".join(map(re.escape, phrase.split())) for phrase in sorted(words, key=len, reverse=True))
    # Most of the text is blank, and the search for a letter passes blanks quickly.
    for found in re.finditer(rf"(?<![\w'-])(?=\w)(?:{'|'.join(phrases)})(?![\w-])", prose, re.IGNORECASE):
        phrase = " ".join(found[0].split())
        yield Hit(prose.count("\n", 0, found.start()) + 1, phrase, words[phrase.lower()])


def main(files: list[Path]) -> int:
    words = replaced_words(GLOSSARY.read_text())
    status = 0
    for pattern, prose_of in SOURCES:
        for file in listed(pattern):
            if files and file not in files:
                continue
            # The table in the glossary has each phrase.
            text = file.read_text().partition(HEADING)[0] if file == GLOSSARY else file.read_text()
            for line, phrase, instead in hits(prose_of(text), words):
                print(f"{file}:{line}: “{phrase}”: say {instead}")
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main([Path(file) for file in sys.argv[1:]]))
