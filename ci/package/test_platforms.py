"""Tests that docs/platforms.md names exactly the platforms that are built and the hosts that are tested."""

import json
import re

import pytest

from building import ROOT
from hosts import BUN, DENO, NEXT, VERSIONS
from npm import PACKAGE, name_of
from platforms import ELSEWHERE, PLATFORMS

PAGE = (ROOT / "docs" / "platforms.md").read_text()


def test_the_page_names_every_package_of_every_platform() -> None:
    found = set(re.findall(r"`((?:many|musl)linux_\w+|linux-\w+-\w+)`", PAGE))
    assert found == {name for one in PLATFORMS for name in (one.wheel, one.npm)}
    assert set(re.findall(r"`(linux-\w+)`", PAGE)) == {f"linux-{one.machine}" for one in PLATFORMS}


def test_the_page_names_every_host_in_its_version() -> None:
    assert set(re.findall(r"(?:Bun|Deno|Next\.js) [\d.]+\d", PAGE)) == {BUN.name, DENO.name, NEXT}


@pytest.mark.parametrize("package", ["bun", "deno", "esbuild", "ioredis"])
def test_the_versions_of_hosts_are_those_that_the_webassembly_package_is_tested_with(package: str) -> None:
    manifest = json.loads((ROOT / "packages" / "web" / "package.json").read_text())
    assert VERSIONS[package] == manifest["devDependencies"][package]


def test_the_node_package_loads_the_library_of_every_platform() -> None:
    source = (PACKAGE / "src" / "native.ts").read_text()
    loaded = re.findall(r"require\('(steadlock-[^']+)'\)", source)
    assert set(loaded) == {name_of(one) for one in (*PLATFORMS, *ELSEWHERE)}
