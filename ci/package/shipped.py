"""Builds the native parts of this machine's packages into target/shipped: the command, and a library for each language.

A run of all tests uses these files, so that it tests what users install and compiles each crate once.
"""

import shutil
import zipfile

import command
import jars
import npm
import wheels
from building import CARGO_TARGET
from platforms import this_platform

SHIPPED = CARGO_TARGET / "shipped"


def main() -> None:
    shutil.rmtree(SHIPPED, ignore_errors=True)
    SHIPPED.mkdir(parents=True)
    glibc = this_platform("glibc")
    for built in (command.build(this_platform("musl")), npm.native(glibc), jars.native(glibc)):
        shutil.copy(built, SHIPPED)
    # Only maturin links this library as it is shipped.
    wheel = wheels.build(glibc, SHIPPED)
    with zipfile.ZipFile(wheel) as archive:
        (library,) = (name for name in archive.namelist() if name.startswith("steadlock/_native.abi3."))
        (SHIPPED / "lib_native.so").write_bytes(archive.read(library))
    wheel.unlink()


if __name__ == "__main__":
    main()
