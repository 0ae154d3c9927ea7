"""Tests the crates of dist/: in a project that has nothing else of ours, they run the README's example."""

from pathlib import Path

import pytest

import crates
from building import DIST, TARGET, unpack
from installing import HERE, five_lines, output_of, with_rust
from table import ran
from version import version

#: The crates for users of the library. A patch replaces each, since crates.io does not have these versions yet.
LIBRARY = [name for name in crates.PUBLISHED if name != "steadlock-cli"]
MANIFEST = """
[package]
name = "shop"
version = "1.0.0"
edition = "2024"

[dependencies]
steadlock = "{version}"
tokio = {{ version = "1", features = ["rt"] }}

[patch.crates-io]
{patches}
"""
MAIN = """
{lines}

fn main() -> Result<(), Box<dyn std::error::Error>> {{
    tokio::runtime::Builder::new_current_thread().build()?.block_on(example())?;
    Ok(())
}}
"""


@pytest.mark.timeout(900)
def test_a_rust_program_needs_only_the_crates(url: str, empty: dict[str, str], tmp_path: Path) -> None:
    packed = {name: DIST / "crates" / f"{name}-{version()}.crate" for name in LIBRARY}
    for crate in packed.values():
        unpack(crate, tmp_path)
    project = tmp_path / "shop"
    (project / "src").mkdir(parents=True)
    patches = "\n".join(f'{name} = {{ path = "../{name}-{version()}" }}' for name in packed)
    (project / "Cargo.toml").write_text(MANIFEST.format(version=version(), patches=patches))
    (project / "src" / "main.rs").write_text(MAIN.format(lines=five_lines("rust,no_run", url)))
    # Uses the versions of third-party crates with which ours was tested.
    (project / "Cargo.lock").write_bytes((tmp_path / f"steadlock-{version()}" / "Cargo.lock").read_bytes())
    surroundings = with_rust(empty) | {"CARGO_TARGET_DIR": str(TARGET / "shop")}
    output_of(["cargo", "update", "--workspace", "--quiet"], project, surroundings)
    assert "fencing token" in output_of(["cargo", "run", "--locked", "--quiet"], project, surroundings)
    for crate in packed.values():
        ran(crate, HERE)
