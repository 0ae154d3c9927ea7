"""Reads a Rust crate: its modules, the imports of each module, and its structs.

This reader resolves a name as Rust does, through `use`, re-exports and globs, to the module that defines it. If a macro
makes the name, the definition cannot be read, and the module in the path counts instead. Names of other crates and code
under `#[cfg(test)]` do not count as imports.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import tree_sitter_rust
from tree_sitter import Language, Node, Parser

PARSER = Parser(Language(tree_sitter_rust.language()))

TEST = re.compile(r"#\[cfg\((all\()?test\b")
CHANGES_SELF = re.compile(r"\(\s*(&\s*('\w+\s*)?mut\s+self\b|self\s*:\s*(\w+<)*&\s*('\w+\s*)?mut\b)")
COMMENTS = ("line_comment", "block_comment")
# Nodes that define a name.
DEFINED = (
    *("struct_item", "enum_item", "union_item", "trait_item", "type_item", "function_item", "const_item"),
    *("static_item", "macro_definition", "function_signature_item"),
)
INNER_NAMES = (*DEFINED, "enum_variant", "type_parameter", "const_parameter", "type_binding", "associated_type")
# Nodes whose words are not imports of the module's code. A visibility can name a module: `pub(in crate::session)`.
SKIPPED = ("use_declaration", "mod_item", "attribute_item", "visibility_modifier", "lifetime", "label", *COMMENTS)
WORDS = ("identifier", "type_identifier", "crate", "self", "super")


class NotUnderstoodError(Exception):
    """Sources that this reader cannot read. A check that skipped them would miss their mistakes."""


class Import(NamedTuple):
    """A path as it is written in a `use` or in the code."""

    path: tuple[str, ...]
    file: Path
    line: int
    # Whether it is a `pub use`, which exports the name to other modules.
    is_public: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {'::'.join(self.path)}"


class Target(NamedTuple):
    """The target of a path: a module, or an item that the module defines."""

    module: "Module"
    is_module: bool


@dataclass(eq=False)
class Module:
    path: tuple[str, ...]
    file: Path
    parent: "Module | None" = None
    # Whether it is written as `mod name { … }` in its parent's file.
    inline: bool = False
    children: dict[str, "Module"] = field(default_factory=dict)
    items: set[str] = field(default_factory=set)
    # The words in the arguments of macros. The macro may define items with these names.
    macro_words: set[str] = field(default_factory=set)
    names: dict[str, list[Import]] = field(default_factory=dict)
    uses: list[Import] = field(default_factory=list)
    globs: list[Import] = field(default_factory=list)
    code: list[Import] = field(default_factory=list)

    def __str__(self) -> str:
        return "::".join(self.path)

    @property
    def home(self) -> "Module":
        """The module of the file that this module is written in. Imports inside one file form no circle."""
        return self.parent.home if self.inline and self.parent else self

    def is_inside(self, other: "Module") -> bool:
        return self.path[: len(other.path)] == other.path


class Struct(NamedTuple):
    module: Module
    name: str
    # The name or number of each field with a `pub`, and its line.
    open_fields: list[tuple[str, int]]


Visited = frozenset[tuple[Module, str]]


class Crate:
    """The tree of modules that begins at a `lib.rs` or `main.rs`."""

    def __init__(self, start: Path) -> None:
        self.files: set[Path] = set()
        self.modules: list[Module] = []
        self.structs: list[Struct] = []
        # The types with a `&mut self` method, by the paths in their `impl`.
        self._changed: list[tuple[Module, Import]] = []
        self.root = Module(("crate",), start)
        self._read_file(self.root, start.parent)

    def imports(self) -> dict[Module, dict[Module, Import]]:
        """Returns the modules that each file's module imports, each with the place of the first import."""
        edges: dict[Module, dict[Module, Import]] = {module.home: {} for module in self.modules}
        for module in self.modules:
            for target, place in sorted(self._imports_of(module), key=lambda pair: pair[1].line):
                if target.home is not module.home:
                    edges[module.home].setdefault(target.home, place)
        return edges

    def machines(self) -> Iterator[Struct]:
        """Yields the structs that have a method with `&mut self`. The method can be in any file of the crate."""
        changed = {
            (target.module, named.path[-1])
            for module, named in self._changed
            for target in self._resolve(module, named.path)
        }
        return (struct for struct in self.structs if (struct.module, struct.name) in changed)

    def _imports_of(self, module: Module) -> Iterator[tuple[Module, Import]]:
        for use in (*module.uses, *module.globs):
            for target in self._resolve(module, use.path):
                # A parent that re-exports its child's items does not use them itself.
                if not (use.is_public and target.module.is_inside(module)):
                    yield target.module, use
        for place in module.code:
            for target in self._resolve(module, place.path):
                # A module's name alone is not a value, so this word is a variable of the same name.
                if len(place.path) > 1 or not target.is_module:
                    yield target.module, place

    def _resolve(self, origin: Module, path: tuple[str, ...], visited: Visited = frozenset()) -> list[Target]:
        """Returns the targets of a path in the module `origin`. A path into another crate has none."""
        first, *others = path
        if first in ("crate", "self", "super"):
            found = self._inside(Target(origin, True), first, origin, visited)
        else:
            found = self._named(origin, first, origin, visited)
        for name in others:
            found = [deeper for target in found for deeper in self._inside(target, name, origin, visited)]
        return found

    def _inside(self, target: Target, name: str, origin: Module, visited: Visited) -> list[Target]:
        module = target.module
        if not target.is_module or name == "self":
            return [target]
        if name == "crate":
            return [Target(self.root, True)]
        if name == "super":
            return [Target(module.parent, True)] if module.parent else []
        return self._named(module, name, origin, visited) or [Target(module, False)]

    def _named(self, module: Module, name: str, origin: Module, visited: Visited) -> list[Target]:
        """Returns the targets of a name in a module, as `origin` sees it. A module, a function and a macro can share a
        name."""
        if (module, name) in visited:
            return []
        visited |= {(module, name)}
        found = []
        if name in module.children:
            found.append(Target(module.children[name], True))
        if name in module.items:
            found.append(Target(module, False))
        # A private `use` is visible only in its module and the modules inside it.
        uses = [use for use in module.names.get(name, ()) if use.is_public or origin.is_inside(module)]
        for use in uses:
            found += self._resolve(module, use.path, visited)
        if found or uses:
            return found
        if name in module.macro_words:
            return [Target(module, False)]
        for glob in module.globs:
            if glob.is_public or origin.is_inside(module):
                for target in self._resolve(module, glob.path, visited):
                    if target.is_module:
                        found += self._named(target.module, name, origin, visited)
        return found

    def _read_file(self, module: Module, folder: Path) -> None:
        """Reads a module's file. The files of its children are in `folder`."""
        self.files.add(module.file)
        tree = PARSER.parse(module.file.read_bytes())
        if tree.root_node.has_error:
            raise NotUnderstoodError(
                f"{module.file}:{line_of_error(tree.root_node)}: tree-sitter-rust cannot read this"
            )
        self._read_module(module, tree.root_node, folder)

    def _read_module(self, module: Module, body: Node, folder: Path) -> None:
        self.modules.append(module)
        self._read_items(module, body)
        module.code = paths(body, module.file)
        for node, is_test in with_tests(body):
            if node.type == "mod_item":
                self._read_child(module, node, folder, is_test)
            elif node.type in ("macro_invocation", "expression_statement") and not is_test:
                module.macro_words |= {text(leaf) for leaf in leaves(node) if leaf.type == "identifier"}

    def _read_child(self, parent: Module, node: Node, folder: Path, is_test: bool) -> None:
        name = text(part(node, "name"))
        body = node.child_by_field_name("body")
        files = [file for file in (folder / f"{name}.rs", folder / name / "mod.rs") if file.exists()]
        if is_test:
            if not body:
                self.files.update(files, (folder / name).rglob("*.rs"))
            return
        if not body and not files:
            raise NotUnderstoodError(f"{parent.file}:{line(node)}: no file in {folder} is that of `mod {name}`")
        child = Module((*parent.path, name), parent.file if body else files[0], parent, inline=bool(body))
        parent.children[name] = child
        if body:
            self._read_module(child, body, folder / name)
        else:
            self._read_file(child, folder / name)

    def _read_items(self, module: Module, body: Node) -> None:
        """Records the items that a module defines and the names that it uses, also in the bodies of its functions."""
        for node, is_test in with_tests(body):
            if is_test or node.type == "mod_item":
                continue
            if node.type == "use_declaration":
                is_public = any(child.type == "visibility_modifier" for child in node.children)
                read_use(module, part(node, "argument"), (), is_public)
            elif node.type in DEFINED and not is_of_type(body):
                module.items.add(text(part(node, "name")))
            if node.type == "struct_item":
                self.structs.append(Struct(module, text(part(node, "name")), open_fields(node)))
            elif node.type == "impl_item" and changes_self(node):
                self._changed += [(module, path) for path in paths(part(node, "type"), module.file)[:1]]
            self._read_items(module, node)


def crates(root: Path) -> list[Crate]:
    """Returns the crates of a `src`. Fails if a file belongs to none of them: a file that is not read could hide a
    circle."""
    starts = [root / "lib.rs", root / "main.rs", *sorted((root / "bin").glob("*.rs"))]
    found = [Crate(start) for start in starts if start.exists()]
    if not found:
        raise NotUnderstoodError(f"{root} has no lib.rs and no main.rs")
    for file in sorted(root.rglob("*.rs")):
        if not any(file in crate.files for crate in found):
            raise NotUnderstoodError(f"{file}: no `mod` leads to it")
    return found


def read_use(module: Module, node: Node, prefix: tuple[str, ...], is_public: bool) -> None:
    """Records each path of a `use`, and its name in the module."""
    if node.type in ("use_list", "scoped_use_list"):
        inner = node.child_by_field_name("path")
        for child in (node.child_by_field_name("list") or node).named_children:
            if child.type not in COMMENTS:
                read_use(module, child, prefix + (words(inner) if inner else ()), is_public)
        return
    written = node.child_by_field_name("path") if node.type == "use_as_clause" else node
    path = prefix + words(written or node)
    if node.type == "use_wildcard":
        module.globs.append(Import(path, module.file, line(node), is_public))
        return
    if len(path) > 1 and path[-1] == "self":
        path = path[:-1]
    alias = node.child_by_field_name("alias")
    use = Import(path, module.file, line(node), is_public)
    module.uses.append(use)
    module.names.setdefault(text(alias) if alias else path[-1], []).append(use)


def paths(body: Node, file: Path) -> list[Import]:
    """Returns every path in the code of a module, and every single word that can name an item.

    The arguments of macros have no syntax tree, only words. Therefore this function reads words everywhere."""
    tokens = list(leaves(body))
    kinds = [token.type for token in tokens] + ["", ""]
    found = []
    at = 0
    while at < len(tokens):
        start = at
        if text(tokens[at]) != "$crate" and kinds[at] not in WORDS:
            at += 1
            continue
        while kinds[at + 1] == "::" and kinds[at + 2] in WORDS:
            at += 2
        path = tuple(text(token).lstrip("$") for token in tokens[start : at + 1 : 2])
        at += 1
        # A word after `.` is a field or a method. After `::` it belongs to another crate or to `Type::<T>::new`.
        before = kinds[start - 1] if start else ""
        if (
            before not in (".", "::")
            and not is_its_name(tokens[start])
            and (len(path) > 1 or may_be_item(path[0], kinds[at]))
        ):
            found.append(Import(path, file, line(tokens[start])))
    return found


def may_be_item(word: str, next_kind: str) -> bool:
    """Whether a single word can name an item: a type, a constant, a function or a macro. Otherwise it is a variable."""
    return word not in ("crate", "self", "super") and (word[0].isupper() or next_kind in ("(", "!", "::"))


def is_its_name(node: Node) -> bool:
    """Whether a word is the name in a definition."""
    return bool(node.parent and node.parent.type in INNER_NAMES and node.parent.child_by_field_name("name") == node)


def is_of_type(body: Node) -> bool:
    """Whether the names that are defined in a node are methods. Code names a method only after a value or a type."""
    return bool(body.parent and body.parent.type in ("impl_item", "trait_item"))


def changes_self(implementation: Node) -> bool:
    return any(
        CHANGES_SELF.match(text(part(node, "parameters")))
        for node, is_test in with_tests(part(implementation, "body"))
        if node.type == "function_item" and not is_test
    )


def open_fields(struct: Node) -> list[tuple[str, int]]:
    body = struct.child_by_field_name("body")
    if not body:
        return []
    if body.type == "ordered_field_declaration_list":
        kinds = [node.type for node in body.children]
        return [
            (str(kinds[:at].count(",")), line(node))
            for at, node in enumerate(body.children)
            if node.type == "visibility_modifier"
        ]
    return [
        (text(part(node, "name")), line(node))
        for node in body.children
        if node.type == "field_declaration" and any(child.type == "visibility_modifier" for child in node.children)
    ]


def with_tests(body: Node) -> Iterator[tuple[Node, bool]]:
    """Yields the children of a node, each with whether it is compiled for tests only."""
    is_test = False
    for node in body.children:
        if node.type == "attribute_item":
            is_test = is_test or bool(TEST.match(text(node)))
        elif node.type not in COMMENTS:
            yield node, is_test
            # In a `match` arm the attribute is a child of the arm, and applies to all children after it.
            is_test = is_test and body.type == "match_arm"


def leaves(node: Node) -> Iterator[Node]:
    """Yields the words and signs of a node in order, without tests and the nodes of `SKIPPED`."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if not node.children:
            yield node
        waiting += reversed([n for n, is_test in with_tests(node) if not is_test and n.type not in SKIPPED])


def line_of_error(node: Node) -> int:
    for child in node.children:
        if child.is_error or child.is_missing:
            return line(child)
        if child.has_error:
            return line_of_error(child)
    return line(node)


def words(path: Node) -> tuple[str, ...]:
    """Returns the words of a path. `::std::mem` begins with an empty word, so that it has no target in this crate."""
    found = tuple(text(leaf) for leaf in leaves(path) if leaf.type in WORDS)
    return ("", *found) if text(path).startswith("::") else found


def part(node: Node, name: str) -> Node:
    found = node.child_by_field_name(name)
    assert found, f"{node.type} has no {name}"
    return found


def text(node: Node) -> str:
    return (node.text or b"").decode()


def line(node: Node) -> int:
    return node.start_point.row + 1
