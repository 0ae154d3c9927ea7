"""Checks drawings of small crates that these tests make up."""

from pathlib import Path

import pytest

import drawings
from rust import NotUnderstoodError


@pytest.fixture(autouse=True)
def in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


DOCUMENT = Path("A.md")
LOCKS = """
  session.rs            verbs of callers,
                        as session.rs is called
     │
  groups/, machines/    waiters · holds (who has it)
     │
  machines/io.rs
     │
  ids.rs names.rs       values
"""
FILES = {
    "lib": "mod session; mod groups; mod machines; mod ids; mod names; pub use session::Session;",
    "session": "use crate::ids::Id; use crate::groups::Group; pub struct Session;",
    "groups/mod": "use crate::machines::holds::Hold; pub struct Group;",
    "machines": "mod waiters; pub mod holds; pub mod io; pub struct Machine;",
    "machines/waiters": "use super::io::Io;",
    "machines/holds": "use crate::names::Name; pub struct Hold;",
    "machines/io": "use crate::ids::Id; pub struct Io;",
    "ids": "use crate::names::Name; pub struct Id;",
    "names": "pub struct Name;",
}


def house(drawing: str = LOCKS, **changed: str) -> list[str]:
    """Returns the errors about a crate with these files changed or added; `a__b` is `a/b.rs`."""
    root = Path("core/locks/src")
    for name, text in (FILES | {name.replace("__", "/"): text for name, text in changed.items()}).items():
        file = root / f"{name}.rs"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    DOCUMENT.write_text(f"# Locks\n\n## The house of `core/locks`\n\n```{drawing}```\n\n## More\n")
    return list(drawings.house(DOCUMENT, root))


def test_a_correct_drawing_has_no_errors() -> None:
    assert not house()


def test_an_upward_import_is_reported_with_its_place_and_both_names() -> None:
    assert house(ids="use crate::names::Name;\n\nuse crate::session::Session;\npub struct Id;") == [
        "core/locks/src/ids.rs:3: crate::session::Session points up: ids.rs is drawn below session.rs, "
        "in lines 13 and 6 of A.md"
    ]


def test_a_path_in_the_code_can_point_up_too() -> None:
    (found,) = house(machines__holds="pub struct Hold;\nfn f() { crate::groups::g(); crate::session::f(); }")
    assert found.startswith("core/locks/src/machines/holds.rs:2: crate::session::f points up")


def test_a_module_with_its_own_layer_is_not_in_the_layer_of_its_folder() -> None:
    (found,) = house(machines__io="use super::waiters::Waiter; pub struct Io;", machines__waiters="pub struct Waiter;")
    assert "machines/io.rs is drawn below machines/waiters," in found


def test_a_module_without_a_layer_is_reported() -> None:
    assert house(lib=FILES["lib"] + "mod clock;", clock="use crate::session::Session;") == [
        "core/locks/src/clock.rs:1: crate::clock stands in no layer of A.md:6"
    ]


@pytest.mark.parametrize(
    ("written", "wrong"),
    [
        (("names.rs", "names.rs clock.rs"), "clock.rs"),
        (("names.rs", "names.rs values"), "values"),
        (("groups/,", "groups/, rooms/"), "rooms/"),
        (("holds (", "ghosts · holds ("), "machines/ghosts"),
    ],
)
def test_a_name_without_a_module_is_reported(written: tuple[str, str], wrong: str) -> None:
    (found,) = house(LOCKS.replace(*written))
    assert found.startswith("A.md:")
    assert found.endswith(f": {wrong} is no module of core/locks/src")


def test_a_name_may_be_in_one_layer_only() -> None:
    assert house(LOCKS.replace("machines/io.rs", "machines/io.rs session.rs")) == [
        "A.md:11: session.rs is drawn already, in line 6"
    ]


def test_a_crate_without_a_drawing_is_reported() -> None:
    house()
    assert not drawings.has_house(DOCUMENT, Path("core/other/src"))
    with pytest.raises(NotUnderstoodError, match="has no drawing under ## The house of `core/other`"):
        list(drawings.house(DOCUMENT, Path("core/other/src")))


CRATES = """# Architecture

```
   your program
        │  bindings/node      converts types
        ▼
   core/client                the engine
        │
        ├─ core/protocol      decides
        └─ core/store         keeps
```

No crate reaches two levels down. `core/cli` is a command of `core/client`, and puts `core/store`
behind a port.
"""
MANIFESTS = {
    "bindings/node": "client.workspace = true",
    "core/client": "protocol = '1'\n[target.'cfg(unix)'.dependencies]\nstore = { version = '1', optional = true }",
    "core/protocol": "serde = '1'\n[dev-dependencies]\nclient = '1'",
    "core/store": "protocol = '1'",
    "core/cli": "client = '1'\nthe_store = { package = 'store', version = '1' }",
}


def crates(text: str = CRATES, **changed: str) -> list[str]:
    """Returns the errors if these crates of `core` or `bindings` have other dependencies."""
    DOCUMENT.write_text(text)
    for folder, wanted in MANIFESTS.items():
        name = Path(folder).name
        Path(folder).mkdir(parents=True, exist_ok=True)
        Path(folder, "Cargo.toml").write_text(
            f"[package]\nname = '{name}'\n[dependencies]\n{changed.get(name, wanted)}\n"
        )
    return list(drawings.all_crates(DOCUMENT, [Path(folder) for folder in MANIFESTS]))


def test_crates_with_the_drawn_dependencies_have_no_errors() -> None:
    assert not crates()


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        (
            {"protocol": "client = '1'"},
            "core/protocol/Cargo.toml:4: core/protocol depends on core/client, which A.md draws above it",
        ),
        (
            {"node": "serde = '1'\nprotocol = '1'"},
            "bindings/node/Cargo.toml:5: bindings/node depends on core/protocol, which A.md draws 2 levels below it",
        ),
        (
            {"cli": "client = '1'\nstore = '1'\nprotocol = '1'"},
            "core/cli/Cargo.toml:6: core/cli depends on core/protocol, and A.md does not say so",
        ),
        (
            {"store": "cli = '1'"},
            "core/store/Cargo.toml:4: core/store depends on core/cli, and A.md does not say so",
        ),
    ],
)
def test_a_dependency_that_is_not_drawn_is_reported(changed: dict[str, str], found: str) -> None:
    assert crates(**changed) == [found]


def test_a_wrong_statement_of_the_text_is_reported() -> None:
    assert crates(cli="client = '1'") == ["A.md: core/cli does not depend on core/store"]


def test_a_drawn_crate_that_does_not_exist_is_reported() -> None:
    assert crates(CRATES.replace("your program", "packages/ruby")) == ["A.md:4: packages/ruby is no folder"]
