"""Tests that the packages for users hold the licences of everything in them."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

from licenses import ROOT

TEXTS = {"LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY-LICENSES.txt"}


def test_the_python_package_has_the_licences(tmp_path: Path) -> None:
    # Writes the metadata of the wheel without building it.
    maturin = Path(sys.prefix) / "bin" / "maturin"
    subprocess.run(
        [maturin, "pep517", "write-dist-info", "--metadata-directory", tmp_path],
        cwd=ROOT / "packages" / "python",
        check=True,
        capture_output=True,
    )
    held = {file.name: file for file in tmp_path.glob("*.dist-info/licenses/*")}
    assert held.keys() >= TEXTS
    assert held["THIRD-PARTY-LICENSES.txt"].read_text() == (ROOT / "THIRD-PARTY-LICENSES.txt").read_text()


def test_the_node_package_has_the_licences() -> None:
    packed = subprocess.run(
        ["npm", "pack", "--dry-run", "--json", "--ignore-scripts"],
        cwd=ROOT / "packages" / "node",
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert {file["path"] for file in json.loads(packed)[0]["files"]} >= TEXTS


def test_the_jar_has_the_licences() -> None:
    (jar,) = (ROOT / "packages" / "jvm" / "target").glob("steadlock-*.jar")
    with zipfile.ZipFile(jar) as archive:
        assert set(archive.namelist()) >= {f"META-INF/{text}" for text in TEXTS}
