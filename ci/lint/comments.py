"""Reads the comments of a source file, or its code. All else becomes blank, so each word keeps its line and column."""

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from typing import NamedTuple

Reader = Callable[[str], str]


def blank(text: str) -> str:
    """Returns as many blanks in as many lines, so that the text after them keeps its line."""
    return re.sub(r"[^\n]", " ", text)


def _language(comment: str, literal: str) -> re.Pattern[str]:
    """Returns the pattern of a language's tokens. A literal may have comment signs in it, and a comment quotes."""
    return re.compile(rf"(?P<comment>{comment})|(?P<literal>{literal})|\w+|\s+|.", re.DOTALL)


def _comments(language: re.Pattern[str]) -> Reader:
    return lambda text: language.sub(lambda found: _words(found[0]) if found["comment"] else blank(found[0]), text)


def _code(language: re.Pattern[str]) -> Reader:
    """Returns a reader of the code without its comments and literals."""
    return lambda text: language.sub(
        lambda found: blank(found[0]) if found["comment"] or found["literal"] else found[0], text
    )


def _words(comment: str) -> str:
    """The comment without its signs."""
    without = re.sub(r"^(\s*)(//[/!]?|--+(\[=*\[)?|/\*\*?|\*/|\*(?!\*)|#+!?)", lambda sign: blank(sign[0]), comment)
    without = re.sub(r"(?m)^[ \t]*\*(?!\*)/?", lambda sign: blank(sign[0]), without)
    return re.sub(r"(\*/|\]=*\])$", lambda sign: blank(sign[0]), without)


_SLASHES = r"//[^\n]*|/\*.*?\*/"
_PLAIN = r'"(?:\\.|[^"\\])*"'
_CHARACTER = r"'(?:\\(?:u\{?\w+\}?|.)|[^'\\\n])'"
_TEXT_BLOCK = r'"""(?:\\.|.)*?"""+'

_RUST = _language(_SLASHES, rf'\b(?:br|r|cr)(?P<signs>\#*)".*?"(?P=signs)|{_PLAIN}|{_CHARACTER}')
_JVM = _language(_SLASHES, rf"{_TEXT_BLOCK}|{_PLAIN}|{_CHARACTER}")
_SCRIPT = _language(
    _SLASHES,
    rf"{_PLAIN}|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`"
    r"|(?<=[=(,:!&|?{;\n])\s*/(?![/*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n])+/",
)
_LUA = _language(
    r"--\[(?P<equals>=*)\[.*?\](?P=equals)\]|--[^\n]*",
    rf"{_PLAIN}|'(?:\\.|[^'\\\n])*'"
    r"|\[(?P<level>=*)\[.*?\](?P=level)\]",
)

rust_comments, jvm_comments, script_comments, lua_comments = map(_comments, (_RUST, _JVM, _SCRIPT, _LUA))
rust_code, jvm_code, script_code, lua_code = map(_code, (_RUST, _JVM, _SCRIPT, _LUA))


def hash_comments(text: str) -> str:
    """Returns the comments of shell scripts and settings that have a line of their own."""
    return re.sub(
        r"(?m)^(?:([ \t]*#+!?)(.*)|(.*))$",
        lambda line: blank(line[3]) if line[3] is not None else blank(line[1]) + line[2],
        text,
    )


def python_comments(text: str) -> str:
    """The comments and the docstrings."""
    lines = text.split("\n")
    prose = [blank(line) for line in lines]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            words = re.sub(r'^(\s*)[rR]?"""|"""\s*$', lambda sign: blank(sign[0]), found)
            prose[node.lineno - 1 : node.end_lineno] = words.split("\n")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            signs = len(token.string) - len(token.string.lstrip("#:!"))
            prose[row - 1] = " " * (column + signs) + token.string[signs:]
    return "\n".join(prose)


#: The files to read, as patterns of git, each with its reader.
SOURCES: list[tuple[str, Reader]] = [
    ("*.rs", rust_comments),
    ("*.py", python_comments),
    ("*.pyi", python_comments),
    ("*.ts", script_comments),
    ("*.mts", script_comments),
    ("*.js", script_comments),
    ("*.mjs", script_comments),
    ("*.kt", jvm_comments),
    ("*.java", jvm_comments),
    ("*.lua", lua_comments),
    ("*.sh", hash_comments),
    ("justfile", hash_comments),
    ("*.just", hash_comments),
    ("*.toml", hash_comments),
    ("*.yml", hash_comments),
]


class Sentence(NamedTuple):
    """A sentence, the line on which it begins, and whether another one stands before it in its paragraph."""

    line: int
    text: str
    is_first: bool


def sentences(prose: str) -> Iterator[Sentence]:
    """Yields the sentences of each paragraph. A paragraph is a block of lines or one item of a list."""
    paragraph: list[tuple[int, str]] = []
    for number, line in enumerate([*prose.split("\n"), ""], 1):
        is_item = re.match(r"\s*([-*•]|\d+\.|[└├]─)\s", line) is not None
        if paragraph and (not line.strip() or is_item):
            yield from _split(paragraph)
            paragraph = []
        if line.strip():
            paragraph.append((number, re.sub(r"^\s*([-*•]|\d+\.)\s+", "", line).strip()))


def _split(paragraph: list[tuple[int, str]]) -> Iterator[Sentence]:
    starts, text = [], ""
    for number, line in paragraph:
        starts.append((len(text), number))
        text += line + " "
    begin = 0
    for end in [*(found.end() for found in re.finditer(r"[.!?][)”\"'`*]*\s+(?=[\"'`“(*]*[A-Z])", text)), len(text)]:
        first = max(number for offset, number in starts if offset <= begin)
        yield Sentence(first, text[begin:end].strip(), begin == 0)
        begin = end
