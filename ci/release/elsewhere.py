"""Builds the wheel and the Node package for macOS or Windows into dist/, on a machine with that system.

Nothing is cross-compiled: .github/workflows/release.yml runs this on machines with each of these systems.
"""

import os
import platform
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "package"))

import bill
import npm
from building import DIST, ROOT, run
from platforms import ELSEWHERE, Elsewhere


def this_system() -> Elsewhere:
    system = {"Darwin": "darwin", "Windows": "win32"}.get(platform.system())
    cpu = {"arm64": "arm64", "x86_64": "x64", "AMD64": "x64"}.get(platform.machine())
    for one in ELSEWHERE:
        if (one.os, one.cpu) == (system, cpu):
            return one
    raise SystemExit(f"release: nothing is built on {platform.system()} {platform.machine()} here")


def main() -> None:
    this = this_system()
    maturin = shutil.which("maturin")
    assert maturin, "install ci/requirements/build.txt"
    bom = bill.wheel_bom("steadlock-python")
    options: list[str | Path] = ["--release", "--locked", "--strip", "--sbom-include", bom]
    run([maturin, "build", *options, "--out", DIST / "python"], ROOT / "packages" / "python")
    (wheel,) = (DIST / "python").glob("*.whl")
    assert wheel.stem.endswith(this.wheel), f"{wheel.name} is not for {this.wheel}"
    run(["cargo", "build", "--release", "--locked", "--package", "steadlock-node"])
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    package = npm.build(this, target / "release" / this.library)
    print(wheel, package, sep="\n")


if __name__ == "__main__":
    main()
