"""Tests the Node package of dist/: in a folder that has nothing else, it runs the README's example."""

import shutil
from pathlib import Path

import pytest

from installing import HERE, MOST_FOR_IMPORT, MOST_FOR_LOCK, best, failed, five_lines, node_packages, output_of
from npm import CHECKS, name_of
from platforms import this_platform
from table import ran

EVALUATE: list[str | Path] = ["node", "--input-type=module", "--eval"]
MEASURED = """
const start = performance.now();
const { connect } = await import('steadlock');
const loaded = performance.now();
const client = await connect(process.argv[1]);
await client.using('first', () => {
  console.log(JSON.stringify({ import: loaded - start, lock: performance.now() - loaded }));
});
await client.close();
"""


def test_node_needs_only_the_two_packages(url: str, empty: dict[str, str], node_project: Path) -> None:
    assert "fencing token" in output_of([*EVALUATE, five_lines("js", url)], node_project, empty)
    for tarball in node_packages():
        ran(tarball, HERE)


@pytest.mark.timing
def test_node_acquires_its_first_lock_quickly(url: str, empty: dict[str, str], node_project: Path) -> None:
    took = best([*EVALUATE, MEASURED, url], node_project, empty)
    print(f"Node: {took}")
    assert took["import"] < MOST_FOR_IMPORT
    assert took["lock"] < MOST_FOR_LOCK


def test_node_without_the_package_of_its_platform_says_what_to_do(empty: dict[str, str], node_project: Path) -> None:
    shutil.rmtree(node_project / "node_modules" / name_of(this_platform()))
    error = failed(["node", "--eval", "require('steadlock')"], node_project, empty)
    assert f"the package {name_of(this_platform())}, which has the native library for this machine" in error


def test_a_bundler_does_not_copy_the_node_package(url: str, empty: dict[str, str], node_project: Path) -> None:
    """Bundles as our README recommends."""
    (node_project / "app.mjs").write_text(five_lines("js", url))
    words = ["app.mjs", "--bundle", "--platform=node", "--format=esm", "--external:steadlock", "--outfile=bundled.mjs"]
    output_of([CHECKS / "esbuild", *words], node_project, empty)
    assert "fencing token" in output_of(["node", "bundled.mjs"], node_project, empty)


def test_a_bundler_that_copies_native_libraries_copies_ours(
    url: str, empty: dict[str, str], node_project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Bundles in the other way that our README describes."""
    folder = tmp_path_factory.mktemp("app")
    required = five_lines("js", url).replace(
        "import { connect } from 'steadlock'", "const { connect } = require('steadlock')"
    )
    (node_project / "app.js").write_text(f"(async () => {{\n{required}}})();\n")
    words = ["app.js", "--bundle", "--platform=node", "--loader:.node=copy", f"--outfile={folder / 'bundled.js'}"]
    output_of([CHECKS / "esbuild", *words], node_project, empty)
    assert "fencing token" in output_of(["node", "bundled.js"], folder, empty)
