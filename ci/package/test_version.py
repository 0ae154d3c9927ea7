"""Tests that all packages have one version."""

import shutil
from pathlib import Path

import pytest

import version


def test_every_package_has_the_version_of_the_workspace() -> None:
    found = [place for file in version.files() for place in version.places(file)]
    others = [place for place in found if place.version != version.version()]
    assert others == []
    named = {place.file.relative_to(version.ROOT).as_posix() for place in found}
    assert named >= {
        "Cargo.toml",
        "packages/jvm/pom.xml",
        "packages/node/package.json",
        "packages/node/package-lock.json",
        "packages/spring/README.md",
        "packages/spring/boot3/pom.xml",
        "packages/spring/boot4/pom.xml",
        "packages/spring/common/pom.xml",
        "packages/spring/pom.xml",
        "packages/web/package.json",
    }


@pytest.mark.parametrize("file", version.files(), ids=lambda file: file.relative_to(version.ROOT).as_posix())
def test_a_new_version_is_written_to_all_places_and_nowhere_else(file: Path, tmp_path: Path) -> None:
    copy = tmp_path / file.name
    shutil.copyfile(file, copy)
    before = list(version.places(copy))
    version.write(copy, "7.8.9-rc.1")
    assert [place._replace(version="7.8.9-rc.1") for place in before] == list(version.places(copy))
    # Versions of other packages stay: with the old version written back, the file is unchanged.
    version.write(copy, version.version())
    assert copy.read_text() == file.read_text()
