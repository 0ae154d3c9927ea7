"""The comments of a source file, as prose: all else is blank, so that each word keeps its line and its column."""

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from typing import NamedTuple

Reader = Callable[[str], str]


def blank(text: str) -> str:
    """As many blanks, in as many lines: what follows keeps its line."""
    return re.sub(r"[^\n]", " ", text)


def _reader(comment: str, other: str) -> Reader:
    """Reads a language by its patterns: of comments, and of literals, which may hold the signs of comments."""
    pattern = re.compile(rf"(?P<comment>{comment})|{other}|\w+|\s+|.", re.DOTALL)

    def read(text: str) -> str:
        return "".join(_words(found[0]) if found["comment"] else blank(found[0]) for found in pattern.finditer(text))

    return read


def _words(comment: str) -> str:
    """The comment without its signs."""
    without = re.sub(r"^(\s*)(//[/!]?|--+(\[=*\[)?|/\*\*?|\*/|\*(?!\*)|#+!?)", lambda sign: blank(sign[0]), comment)
    without = re.sub(r"(?m)^[ \t]*\*(?!\*)/?", lambda sign: blank(sign[0]), without)
    return re.sub(r"(\*/|\]=*\])$", lambda sign: blank(sign[0]), without)


_SLASHES = r"//[^\n]*|/\*.*?\*/"
_PLAIN = r'"(?:\\.|[^"\\])*"'
_CHARACTER = r"'(?:\\(?:u\{?\w+\}?|.)|[^'\\\n])'"
_TEXT_BLOCK = r'"""(?:\\.|.)*?"""+'

of_rust = _reader(_SLASHES, rf'\b(?:br|r|cr)(?P<signs>\#*)".*?"(?P=signs)|{_PLAIN}|{_CHARACTER}')
of_jvm = _reader(_SLASHES, rf"{_TEXT_BLOCK}|{_PLAIN}|{_CHARACTER}")
of_script = _reader(
    _SLASHES,
    rf"{_PLAIN}|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`"
    r"|(?<=[=(,:!&|?{;\n])\s*/(?![/*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n])+/",
)
of_lua = _reader(
    r"--\[(?P<equals>=*)\[.*?\](?P=equals)\]|--[^\n]*",
    rf"{_PLAIN}|'(?:\\.|[^'\\\n])*'"
    r"|\[(?P<level>=*)\[.*?\](?P=level)\]",
)


def of_hashes(text: str) -> str:
    """The comments that have a line of their own: of scripts of the shell, and of settings."""
    return re.sub(
        r"(?m)^(?:([ \t]*#+!?)(.*)|(.*))$",
        lambda line: blank(line[3]) if line[3] is not None else blank(line[1]) + line[2],
        text,
    )


def of_python(text: str) -> str:
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
    ("*.rs", of_rust),
    ("*.py", of_python),
    ("*.pyi", of_python),
    ("*.ts", of_script),
    ("*.js", of_script),
    ("*.mjs", of_script),
    ("*.kt", of_jvm),
    ("*.java", of_jvm),
    ("*.lua", of_lua),
    ("*.sh", of_hashes),
    ("justfile", of_hashes),
    ("*.just", of_hashes),
    ("*.toml", of_hashes),
    ("*.yml", of_hashes),
]


class Sentence(NamedTuple):
    """A sentence, the line on which it begins, and whether another one stands before it in its paragraph."""

    line: int
    text: str
    is_first: bool


def sentences(prose: str) -> Iterator[Sentence]:
    """The sentences of each paragraph: of lines one below the other, or of one item of a list."""
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
