"""Tests the Node package of dist/ under Bun and Deno, which load its native library like Node."""

import shutil
from pathlib import Path

import pytest

from building import ROOT
from hosts import BUN, DENO, Host
from installing import failed, five_lines, node_packages, output_of
from table import ran

#: A program that must work on every host. The tests of packages/web use it too.
SCENARIO = ROOT / "packages" / "web" / "test" / "runtimes" / "scenario.mjs"
SCENARIO_TEST = """
import assert from 'node:assert/strict';
import * as steadlock from 'steadlock';
import { scenario, EXPECTED_LINES } from './scenario.mjs';

assert.deepEqual(await scenario(steadlock, process.argv[2], 'redis://127.0.0.1:1'), EXPECTED_LINES);
"""
HOLDER_TEST = """
import { connect } from 'steadlock';

const client = await connect(process.argv[2]);
const lock = client.lock('who');
const lease = await lock.lock({ waitMs: 1_000 });
console.log((await lock.holder()).client.language);
"""

hosts = pytest.mark.parametrize("host", [BUN, DENO], ids=lambda host: host.name.split()[0])


@hosts
def test_the_readme_s_lines_run(host: Host, url: str, empty: dict[str, str], node_project: Path) -> None:
    (node_project / "app.mjs").write_text(five_lines("js", url))
    assert "fencing token" in output_of([*host.native, "app.mjs"], node_project, empty)
    for tarball in node_packages():
        ran(tarball, host.name)


@hosts
def test_the_package_works_in_every_host(host: Host, url: str, empty: dict[str, str], node_project: Path) -> None:
    shutil.copy(SCENARIO, node_project)
    (node_project / "scenario-test.mjs").write_text(SCENARIO_TEST)
    output_of([*host.native, "scenario-test.mjs", url], node_project, empty)


@hosts
def test_a_holder_is_named_with_its_host_and_releases_at_the_end(
    host: Host, url: str, empty: dict[str, str], node_project: Path
) -> None:
    (node_project / "holder-test.mjs").write_text(HOLDER_TEST)
    for _ in range(2):
        assert output_of([*host.native, "holder-test.mjs", url], node_project, empty) == f"{host.name.lower()}\n"


def test_deno_names_the_missing_permission(empty: dict[str, str], node_project: Path) -> None:
    (node_project / "app.mjs").write_text("import 'steadlock';\n")
    command = [word for word in DENO.native if word != "--allow-ffi"]
    error = failed([*command, "app.mjs"], node_project, empty)
    assert "cannot be loaded here: NotCapable: Requires ffi access to" in error
    assert "run again with the --allow-ffi flag" in error


def test_bun_compiles_the_package_into_one_program(
    url: str, empty: dict[str, str], node_project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("app")
    (node_project / "app.mjs").write_text(five_lines("js", url))
    output_of([*BUN.native, "build", "app.mjs", "--compile", f"--outfile={folder / 'app'}"], node_project, empty)
    assert "fencing token" in output_of([folder / "app"], folder, empty)
