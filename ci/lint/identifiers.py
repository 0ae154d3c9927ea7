"""Finds words that docs/glossary.md has replaced, in identifiers and in the names of source files.

    python ci/lint/identifiers.py [FILE...]     without files, all that git lists

An identifier is read as its words: `is_heard`, `isHeard` and `IS_HEARD` have the words "is heard". They must have no
phrase of the tables "Replaced words" and "In identifiers".
"""

import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from comments import Reader, hash_comments, jvm_code, lua_code, rust_code, script_code

from words import GLOSSARY, Hit, hits, listed, replaced_words

HEADING = "### In identifiers"
#: Words that are right in the files below a folder, each with the reason.
ALLOWED = {
    ("", "watched"): "only leases are not watched but renewed; objects, descriptors and servers may be watched",
    ("ci/interop/jvm", "tries"): "`setIdleBetweenTries` is a method of Spring",
}
SHELL_NAME = re.compile(r"\b([A-Za-z_]\w*)(?=\+?=|\(\))|(?<=\$)([A-Za-z_]\w*)|(?<=\$\{)[!#]?([A-Za-z_]\w*)")


def names_in(code: str) -> Iterator[tuple[int, str]]:
    """Yields the line and the text of each identifier."""
    for number, line in enumerate(code.split("\n"), 1):
        yield from ((number, name) for name in re.findall(r"[A-Za-z_]\w*", line))


def names_in_python(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string


def names_in_shell(text: str) -> Iterator[tuple[int, str]]:
    """Yields the functions and variables. All other words can be those of programs."""
    comments = hash_comments(text).split("\n")
    for number, (line, comment) in enumerate(zip(text.split("\n"), comments, strict=True), 1):
        if not comment.strip():
            yield from ((number, "".join(found)) for found in SHELL_NAME.findall(line))


def by(code_of: Reader) -> Callable[[str], Iterator[tuple[int, str]]]:
    return lambda text: names_in(code_of(text))


#: The files to read, as patterns of git, each with the function that yields its identifiers.
SOURCES: list[tuple[str, Callable[[str], Iterator[tuple[int, str]]]]] = [
    ("*.rs", by(rust_code)),
    ("*.py", names_in_python),
    ("*.pyi", names_in_python),
    *((f"*.{ending}", by(script_code)) for ending in ("ts", "mts", "js", "mjs")),
    ("*.kt", by(jvm_code)),
    ("*.java", by(jvm_code)),
    ("*.lua", by(lua_code)),
    *(
        (pattern, names_in_shell)
        for pattern in ("*.sh", "ci/install", "ci/just", "ci/bare/enter", "ci/bare/root", "ci/support/server")
    ),
]


Finder = Callable[[str], list[Hit]]


def words_of(name: str) -> str:
    """Returns the words of an identifier in lower case, separated by spaces."""
    return " ".join(re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name)).lower()


def finder(glossary: str) -> Finder:
    """Returns the function that finds the replaced phrases of an identifier."""
    phrases = replaced_words(glossary) | replaced_words(glossary, HEADING)
    return cache(lambda name: list(hits(words_of(name), phrases)))


def wrong_names(file: Path, names: Iterator[tuple[int, str]], find: Finder) -> Iterator[tuple[str, Hit]]:
    """Yields each identifier of a file, at its first place, that has a replaced phrase."""
    first_lines: dict[str, int] = {"/".join(file.with_suffix("").parts): 1}
    for line, name in names:
        first_lines.setdefault(name, line)
    for name, line in first_lines.items():
        for hit in find(name):
            if not any(file.is_relative_to(folder) and word == hit.phrase for folder, word in ALLOWED):
                yield name, hit._replace(line=line)


def main(files: list[Path]) -> int:
    find = finder(GLOSSARY.read_text())
    status = 0
    for pattern, names_of in SOURCES:
        for file in listed(pattern):
            if files and not any(file.is_relative_to(other) for other in files):
                continue
            for name, hit in wrong_names(file, names_of(file.read_text()), find):
                print(f"{file}:{hit.line}: {name}: “{hit.phrase}”: say {hit.instead}")
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main([Path(file) for file in sys.argv[1:]]))
