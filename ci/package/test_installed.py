"""What dist/ has, installed where there is nothing else, runs the README's lines."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from building import DIST
from command import archive
from installing import HERE, best, five_lines, said
from npm import CHECKS, name_of
from platforms import here
from table import ran
from version import version

#: In milliseconds.
MOST_FOR_IMPORT, MOST_FOR_LOCK = 50, 20


PYTHON = """
import json, sys, time
start = time.perf_counter()
import leasehold
loaded = time.perf_counter()
with leasehold.connect(sys.argv[1]) as client, client.lock("first"):
    locked = time.perf_counter()
print(json.dumps({"import": (loaded - start) * 1e3, "lock": (locked - loaded) * 1e3}))
"""

NODE = """
const start = performance.now();
const { connect } = await import('leasehold');
const loaded = performance.now();
const client = await connect(process.argv[1]);
await client.using('first', () => {
  console.log(JSON.stringify({ import: loaded - start, lock: performance.now() - loaded }));
});
await client.close();
"""


def test_the_command_runs_alone(program: Path, empty: dict[str, str], tmp_path: Path) -> None:
    assert said([program, "--version"], tmp_path, empty) == f"leasehold {version()}\n"
    for completion in ("leasehold.bash", "_leasehold", "leasehold.fish"):
        assert (program.parent / "completions" / completion).stat().st_size > 0
    for page in ("leasehold.1", "leasehold-run.1", "leasehold-serve.1"):
        assert (program.parent / "man1" / page).stat().st_size > 0
    ran(archive(here()), HERE)


def test_the_wheel_is_all_that_python_needs(url: str, empty: dict[str, str], tmp_path: Path) -> None:
    said([sys.executable, "-m", "venv", "venv"], tmp_path, empty)
    python = tmp_path / "venv" / "bin" / "python"
    wheels = ["--no-index", "--find-links", str(DIST / "python"), f"leasehold=={version()}"]
    said([python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *wheels], tmp_path, empty)
    assert "fencing token" in said([python, "-c", five_lines("python", url)], tmp_path, empty)
    took = best([python, "-c", PYTHON, url], tmp_path, empty)
    print(f"Python: {took}")
    assert took["import"] < MOST_FOR_IMPORT
    assert took["lock"] < MOST_FOR_LOCK
    ran(DIST / "python" / f"leasehold-{version()}-cp311-abi3-{here().wheel}.whl", HERE)


def tarballs() -> list[Path]:
    """The Node package of this platform, and the one that users name."""
    platform = name_of(here()).replace("@", "").replace("/", "-")
    return [DIST / "npm" / f"{name}-{version()}.tgz" for name in (platform, "leasehold")]


@pytest.fixture
def node_project(empty: dict[str, str], tmp_path: Path) -> Path:
    """A folder with the Node package, and the one of this platform."""
    (tmp_path / "package.json").write_text('{ "private": true }\n')
    # Nothing is asked of the registry, which has none of these yet.
    said(["npm", "install", "--offline", "--no-audit", "--no-fund", *tarballs()], tmp_path, empty)
    return tmp_path


def test_the_two_packages_are_all_that_node_needs(url: str, empty: dict[str, str], node_project: Path) -> None:
    evaluate: list[str | Path] = ["node", "--input-type=module", "--eval"]
    assert "fencing token" in said([*evaluate, five_lines("js", url)], node_project, empty)
    took = best([*evaluate, NODE, url], node_project, empty)
    print(f"Node: {took}")
    assert took["import"] < MOST_FOR_IMPORT
    assert took["lock"] < MOST_FOR_LOCK
    for tarball in tarballs():
        ran(tarball, HERE)


def test_node_without_its_platform_s_package_says_what_to_do(empty: dict[str, str], node_project: Path) -> None:
    shutil.rmtree(node_project / "node_modules" / "@leasehold")
    command = ["node", "--eval", "require('leasehold')"]
    done = subprocess.run(command, cwd=node_project, env=empty, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"the package {name_of(here())}, which has the native library for this machine" in done.stderr


def test_a_bundler_leaves_the_node_package_where_it_is(url: str, empty: dict[str, str], node_project: Path) -> None:
    """As our README tells those who use one."""
    (node_project / "app.mjs").write_text(five_lines("js", url))
    words = ["app.mjs", "--bundle", "--platform=node", "--format=esm", "--external:leasehold", "--outfile=bundled.mjs"]
    said([CHECKS / "esbuild", *words], node_project, empty)
    assert "fencing token" in said(["node", "bundled.mjs"], node_project, empty)
