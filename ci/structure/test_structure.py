"""Runs the checks on small crates that these tests make up."""

from pathlib import Path

import pytest

import structure
from rust import NotUnderstoodError


@pytest.fixture(autouse=True)
def in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def crate(**files: str) -> Path:
    """Writes a crate with these files and returns its folder; `a__b` is `a/b.rs`."""
    for name, text in files.items():
        file = Path("src", name.replace("__", "/") + ".rs")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return Path("src")


def circles(**files: str) -> list[str]:
    return list(structure.circles(crate(**files)))


LIB = "mod a; mod b; pub struct Root;"


def test_a_circle_is_reported_with_the_place_of_each_import() -> None:
    assert circles(
        lib="mod hold;\nmod queue;\nmod session;\n",
        session="//! The session.\n\nuse crate::hold::{self, Grant};\n",
        hold="use std::fmt;\n\nuse crate::{\n    queue::Queue,\n};\n",
        queue="fn of(session: &super::session::Session) {}\n",
    ) == [
        "src: a circle of imports: crate::hold → crate::queue → crate::session → crate::hold\n"
        "  src/hold.rs:4: crate::queue::Queue\n"
        "  src/queue.rs:1: super::session::Session\n"
        "  src/session.rs:3: crate::hold"
    ]


def test_imports_in_one_direction_are_no_circle() -> None:
    assert not circles(
        lib="mod a; mod b; mod c; pub use a::A; fn f() { a::A::new(); }",
        a="use crate::b::B; use crate::c::C; pub struct A;",
        b="use crate::c::C; pub struct B;",
        c="use std::fmt::Display; pub struct C;",
    )


@pytest.mark.parametrize(
    "written",
    [
        "use crate::b::B;",
        "use crate::b;",
        "use crate::{b::{B as Other, C}, Root};",
        "use super::b::B;",
        "use self::super::b::B as _;",
        "use crate::b::*;",
        "pub(crate) use crate::b::B;",
        "pub use super::b::B;",
        "fn f() { use crate::b::B; }",
        "fn f(b: &crate::b::B) {}",
        "fn f() -> Vec<crate::b::B> { Vec::new() }",
        "fn f() { crate::b::B::new(); }",
        "fn f() { let b = <crate::b::B as Default>::default(); }",
        "fn f() { let b = Vec::<super::b::B>::new(); }",
        'fn f() { println!("{}", crate::b::NAME); }',
        "fn f(x: u8) { match x { crate::b::ONE => {} _ => {} } }",
        "macro_rules! make { () => { $crate::b::B::new() }; }",
        "impl crate::b::Named for u8 {}",
        "struct S { b: crate::b::B }",
        "mod inner { use super::super::b::B; }",
        "use crate as root; fn f() { root::b::B::new(); }",
        "#[cfg(any(test, unix))] use crate::b::B;",
    ],
)
def test_every_form_of_an_import_counts(written: str) -> None:
    assert len(circles(lib=LIB, a=written, b="use crate::a; pub struct B;")) == 1


@pytest.mark.parametrize(
    "written",
    [
        "use ::b::B;",
        "use other::b::B;",
        "// use crate::b::B;",
        "/// As [`crate::b::B`] does.\nfn f() {}",
        'const PATH: &str = "crate::b::B";',
        "pub(in crate::b) fn f() {}",
        "fn f(x: X) { x.b(); x.b; let b = 1; g(b); }",
        "#[cfg(test)] mod tests { use crate::b::B; }",
        "#[cfg(test)] use crate::b::B;",
        "#[cfg(test)]\n#[allow(unused)]\n// Only there.\nfn f() { crate::b::B::new(); }",
        "#[cfg(all(test, unix))] impl S { fn f() { crate::b::B::new(); } }",
        "fn f(x: u8) { match x { #[cfg(test)] 1 => crate::b::f(), _ => {} } }",
    ],
)
def test_text_that_is_no_import_does_not_count(written: str) -> None:
    assert not circles(lib=LIB, a=written, b="use crate::a; pub struct B;")


def test_an_import_through_a_reexport_counts_for_the_defining_module() -> None:
    files = {
        "lib": "mod ids; mod queue; mod session;",
        "session": "pub(crate) use crate::ids::{Ticket, Lease as Other}; use crate::queue::Queue;",
        "ids": "pub struct Ticket; pub struct Lease;",
    }
    assert not circles(**files, queue="use crate::session::{Other, Ticket}; pub struct Queue;")
    files["session"] += "pub struct Session;"
    assert len(circles(**files, queue="use crate::session::{Session, Ticket}; pub struct Queue;")) == 1


def test_glob_reexports_are_followed_also_to_items_of_macros() -> None:
    assert not circles(
        lib="mod ids; mod queue; mod session;",
        session="pub(crate) use crate::ids::*; use crate::queue::Queue;",
        ids="macro_rules! ids { ($($name:ident)*) => { $(pub struct $name;)* }; } ids! { Ticket Lease }",
        queue="use crate::session::Ticket; pub struct Queue;",
    )


def test_an_undefined_name_counts_for_the_named_module() -> None:
    assert circles(lib=LIB, a="use crate::b::Unknown;", b="use crate::a::Unknown;")


def test_a_private_use_is_visible_in_its_module_only() -> None:
    (found,) = circles(
        lib="mod commands; mod info;",
        commands="mod server; fn f() { server::info(); }",
        commands__server="use crate::info; pub fn info() { info::of(); }",
        info="use crate::commands::TABLE;",
    )
    assert "crate::commands → crate::commands::server → crate::info → crate::commands\n" in found


CHILD = "use super::Thing; pub struct Part; pub fn part() {} pub const PART: u8 = 1;"


@pytest.mark.parametrize(
    "own",
    ["", "pub use child::Part;", "pub(crate) use self::child::*;", "pub use child::part; fn f(part: u8) { g(part); }"],
)
def test_a_parent_may_declare_a_child_and_show_its_items(own: str) -> None:
    assert not circles(lib="mod a;", a__mod=f"mod child; {own} pub struct Thing;", a__child=CHILD)


@pytest.mark.parametrize(
    "own",
    [
        "use child::Part;",
        "pub use child::Part; struct Other(Part);",
        "pub use child::*; struct Other(Part);",
        "pub use child::part; fn f() { part(); }",
        "fn f() { child::part(); }",
        "fn f() { assert_eq!(child::PART, 1); }",
    ],
)
def test_a_file_and_the_files_in_its_folder_are_one_module(own: str) -> None:
    assert not circles(lib="mod a;", a=f"mod child; {own} pub struct Thing;", a__child=CHILD)


def test_a_circle_through_another_module_is_found_from_any_submodule() -> None:
    a = "mod child; use self::child::Part; use crate::b::B; pub struct Thing;"
    assert len(circles(lib="mod a; mod b;", a=a, a__child=CHILD, b="use crate::a::Thing; pub struct B;")) == 1


def test_children_may_use_each_other_through_their_parent() -> None:
    (found,) = circles(
        lib="mod a;",
        a="mod one; mod two; use one::One; use two::Two;",
        a__one="use super::*; pub struct One(Two);",
        a__two="use super::One; pub struct Two;",
    )
    assert "crate::a::one" in found


def test_modules_of_one_file_may_form_a_circle() -> None:
    assert not circles(lib="pub struct Thing; mod inner { use super::Thing; pub struct Part; } use inner::Part;")


def test_the_shortest_circle_of_each_group_is_reported() -> None:
    found = circles(
        lib="mod a; mod b; mod c; mod x; mod y;",
        a="use crate::b::B;",
        b="use crate::c::C;",
        c="use crate::{a::A, b::B};",
        x="use crate::{a::A, y::Y};",
        y="use crate::x::X;",
    )
    assert [text.splitlines()[0] for text in found] == [
        "src: a circle of imports: crate::b → crate::c → crate::b (one of the circles among 3 modules)",
        "src: a circle of imports: crate::x → crate::y → crate::x",
    ]


def test_a_library_and_its_program_are_two_crates() -> None:
    assert not circles(lib="mod a;", main="mod b;", a="use crate::b::B;", b="use crate::a::A;")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a": ""}, "src has no lib.rs and no main.rs"),
        ({"lib": "", "a": ""}, "src/a.rs: no `mod` leads to it"),
        ({"lib": "// Here.\nmod a;"}, "src/lib.rs:2: no file in src is that of `mod a`"),
        ({"lib": "\nfn f( {"}, "src/lib.rs:2: tree-sitter-rust cannot read this"),
    ],
)
def test_code_that_cannot_be_parsed_is_reported(files: dict[str, str], message: str) -> None:
    with pytest.raises(NotUnderstoodError, match=message):
        circles(**files)


def test_the_files_of_tests_need_not_be_read() -> None:
    assert not circles(lib="#[cfg(test)] mod tests;", tests="mod more; use crate::x::Y;", tests__more="")


def test_a_file_that_is_too_long_is_reported() -> None:
    root = crate(lib="\n" * 500, a="\n" * 501)
    (root / "notes.txt").write_text("\n" * 501)
    assert list(structure.long_files(root, 500)) == ["src/a.rs: 501 lines; 500 is the most"]


MACHINES = {
    "lib": "mod machines; mod other; mod plain;",
    "plain": "pub struct Plain { pub id: u8 } impl Plain { fn read(&self) {} fn make(mut self) {} }",
    "machines": """pub struct Holds {
    pub(crate) open: u8,
    closed: u8,
}
struct Pair(u8, pub u8);
struct Unused { pub open: u8 }
struct Waiters { closed: u8 }
impl Waiters { fn input(&mut self) {} }
impl Unused { #[cfg(test)] fn input(&mut self) {} }
impl Iterator for Pair { fn next(self: &mut Self) {} }
""",
    "other": "use crate::machines::Holds; impl Holds { fn input<'a>(&'a mut self, now: u8) {} }",
}


def test_a_public_field_of_a_machine_is_found_wherever_its_methods_are() -> None:
    root = crate(**MACHINES)
    assert list(structure.open_machines(root / "machines.rs")) == [
        "src/machines.rs:2: the field open of the machine Holds is open",
        "src/machines.rs:5: the field 1 of the machine Pair is open",
    ]
    assert not list(structure.open_machines(root / "plain.rs"))


def test_a_listed_folder_that_does_not_exist_is_reported() -> None:
    with pytest.raises(NotUnderstoodError, match="nowhere"):
        list(structure.listed(["nowhere/*"]))


def test_an_error_fails_the_check(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    crate(lib=LIB, a="use crate::b::B;", b="use crate::a::A;")
    (settings := Path("ci/structure/structure.toml")).parent.mkdir(parents=True)
    document = "# Architecture\n```\nyour program\n```\n## The house of `.`\n```\n  a.rs\n  │\n  b.rs\n```\n"
    Path("A.md").write_text(document)
    settings.write_text(
        'circles.roots = ["src"]\nfiles = { roots = [], most_lines = 9 }\nmachines.parts = []\n'
        'drawings = { document = "A.md", crates = [], houses = ["src"] }\n'
    )
    monkeypatch.setattr(structure, "HERE", settings.parent.resolve())
    monkeypatch.setattr("sys.argv", ["structure.py"])
    assert structure.main() == 1
    assert "crate::a → crate::b → crate::a" in capsys.readouterr().err
    Path("src/b.rs").write_text("")
    assert structure.main() == 0
    Path("A.md").write_text(document.replace("a.rs\n  │\n  b.rs", "b.rs\n  │\n  a.rs"))
    assert structure.main() == 1
    assert capsys.readouterr().err.startswith("src/a.rs:1: crate::b::B points up")
