"""Tests the package for WebAssembly of dist/: in a folder with nothing else of ours, it runs the READMEs' examples."""

from pathlib import Path

import pytest

from building import ROOT
from hosts import BUN, DENO, NODE, Host
from installing import HERE, add_packages_of_others, five_lines, npm_install, output_of, web_package
from table import ran

README = ROOT / "packages" / "web" / "README.md"

hosts = pytest.mark.parametrize("host", [NODE, BUN, DENO], ids=lambda host: host.name.split()[0])


@pytest.fixture
def web_project(empty: dict[str, str], tmp_path: Path) -> Path:
    """A folder with the package for WebAssembly."""
    npm_install(tmp_path, empty, web_package())
    return tmp_path


@hosts
def test_over_http_the_package_needs_no_other(
    host: Host, served: tuple[str, str], empty: dict[str, str], web_project: Path
) -> None:
    (web_project / "app.mjs").write_text(five_lines("js", served[0], "steadlock-web/upstash"))
    surroundings = empty | {"UPSTASH_REDIS_REST_URL": served[1], "UPSTASH_REDIS_REST_TOKEN": "any"}
    assert "fencing token" in output_of([*host.web, "app.mjs"], web_project, surroundings)
    ran(web_package(), HERE if host == NODE else host.name)


@hosts
def test_the_package_locks_through_ioredis(host: Host, url: str, empty: dict[str, str], web_project: Path) -> None:
    add_packages_of_others(web_project)
    # The connections of ioredis stay open, as the README explains, so the program must exit by itself.
    program = f"{five_lines('js', url, 'steadlock-web/ioredis', README)}process.exit(0);\n"
    (web_project / "app.mjs").write_text(program)
    assert "fencing token" in output_of([*host.web, "app.mjs"], web_project, empty)
