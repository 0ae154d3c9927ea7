"""Builds and checks the Python package: its wheels and its sources."""

import json
import shutil
import zipfile
from pathlib import Path

import bill
import checks
import unwinder
from building import DIST, ROOT, TARGET, VENV, environment, run, same_tools
from platforms import Platform

PACKAGE = ROOT / "packages" / "python"
#: The oldest Python whose stable ABI the wheels use.
ABI = "3.11"
#: The folder of the wheels that users install.
FOLDER = DIST / "python"
WORDS = ("--release", "--locked", "--strip", "--quiet", "--out")


def build(platform: Platform, folder: Path = FOLDER) -> Path:
    """Builds a wheel that works with every Python from 3.11 on."""
    run(
        [
            *(VENV / "maturin", "build", *WORDS, folder, "--zig"),
            *("--sbom-include", bill.wheel_bom("steadlock-python", platform.triple)),
            *("--target", platform.triple, "--compatibility", platform.wheel.removesuffix(f"_{platform.machine}")),
            *("--", *unwinder.flags(platform)),
        ],
        PACKAGE,
        **environment(platform) | same_tools(platform),
    )
    (wheel,) = folder.glob(f"*{platform.wheel}.whl")
    return wheel


def sources() -> Path:
    """Packs the sources. If no wheel fits a machine, pip builds from them."""
    run([VENV / "maturin", "sdist", "--out", FOLDER], PACKAGE)
    (sdist,) = FOLDER.glob("*.tar.gz")
    run([VENV / "twine", "check", "--strict", sdist])
    return sdist


def check(wheel: Path, platform: Platform) -> list[str]:
    unpacked = TARGET / "unpacked" / wheel.stem
    shutil.rmtree(unpacked, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    for file in filter(Path.is_file, unpacked.rglob("*")):
        paths = checks.paths_in(file.read_bytes())
        assert not paths, f"{file} names folders of this machine: {paths[:5]}"
    (bom,) = unpacked.glob("*.dist-info/sboms/*.cyclonedx.json")
    assert json.loads(bom.read_text())["components"], f"{bom} has no crates"
    (native,) = (unpacked / "steadlock").glob("_native*.so")
    found = checks.compiled(native, platform)
    assert unwinder.is_used(native, platform), f"{wheel} has an unwinder of its own"
    (metadata,) = unpacked.glob("*.dist-info/METADATA")
    assert "\nProject-URL: Repository, https://" in metadata.read_text(), f"{wheel} does not say where it is from"
    run([VENV / "twine", "check", "--strict", wheel])
    run([VENV / "abi3audit", "--strict", "--assume-minimum-abi3", ABI, native])
    assert wheel.stat().st_size < 4_000_000, f"{wheel} is too large"
    found += ["twine", "abi3audit"]
    if platform.libc == "glibc":
        # Not for musl: auditwheel follows the needed libraries, and mistakes a linker script named libc.so for musl's.
        run([VENV / "auditwheel", "show", wheel])
        found.append("auditwheel")
    return found
