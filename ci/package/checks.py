"""Checks the properties that every native file must have."""

import os
import re
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import SymbolTableSection

from building import private_folders
from platforms import GLIBC, Platform


def glibc_needed(file: Path) -> tuple[int, int]:
    """Returns the newest version of glibc that the symbols of a file need, or (0, 0) if they need none."""
    newest = (0, 0)
    with file.open("rb") as opened:
        for section in ELFFile(opened).iter_sections():
            if not isinstance(section, GNUVerNeedSection):
                continue
            for _, needed in section.iter_versions():
                for one in needed:
                    if found := re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", one.name):
                        newest = max(newest, (int(found[1]), int(found[2])))
    return newest


def libraries_needed(file: Path) -> set[str]:
    """Returns the shared libraries that a file needs."""
    with file.open("rb") as opened:
        dynamic = ELFFile(opened).get_section_by_name(".dynamic")
        if not isinstance(dynamic, DynamicSection):
            return set()
        return {vars(tag)["needed"] for tag in dynamic.iter_tags("DT_NEEDED")}


def symbols_needed(file: Path) -> set[str]:
    """Returns the symbols that other libraries must define."""
    with file.open("rb") as opened:
        section = ELFFile(opened).get_section_by_name(".dynsym")
        if not isinstance(section, SymbolTableSection):
            return set()
        return {symbol.name for symbol in section.iter_symbols() if symbol["st_shndx"] == "SHN_UNDEF"}


def machine_of(file: Path) -> str:
    with file.open("rb") as opened:
        return str(ELFFile(opened).get_machine_arch())


def paths_in(content: bytes) -> list[str]:
    """Returns the words of a file that name a folder of this machine."""
    folders = [str(folder) for folder in (*private_folders(), Path.home())]
    pattern = b"|".join(re.escape(folder.encode()) + rb"[\x21-\x7e]{0,80}" for folder in folders)
    return [found.decode() for found in re.findall(pattern, content)]


#: Libraries that belong to a C library or its compiler. Every system with that C library has them.
OF_THE_SYSTEM = {
    "glibc": r"(libc|libm|libdl|libpthread|librt|libgcc_s|ld-linux[-\w]*)\.so\.\d+",
    "musl": r"libc\.so|libc\.musl-\w+\.so\.1|libgcc_s\.so\.1",
}
MACHINES = {"x64": "x64", "arm64": "AArch64"}


def compiled(file: Path, platform: Platform) -> list[str]:
    """Checks a file, and returns the findings for the table."""
    assert machine_of(file) == MACHINES[platform.cpu], f"{file} is for {machine_of(file)}"
    needed = glibc_needed(file)
    assert needed <= GLIBC, f"{file} needs glibc {needed}"
    foreign = {one for one in libraries_needed(file) if not re.fullmatch(OF_THE_SYSTEM[platform.libc], one)}
    assert not foreign, f"{file} needs {foreign}"
    paths = paths_in(file.read_bytes())
    assert not paths, f"{file} names folders of this machine: {paths[:5]}"
    is_static = not libraries_needed(file)
    return ["static" if is_static else f"glibc {needed[0]}.{needed[1]}" if any(needed) else "musl", "no paths"]


#: The largest size of a native library. CI builds without optimizing across crates, so its libraries are larger.
MOST_BYTES = 7_000_000 if os.environ.get("CARGO_PROFILE_RELEASE_LTO") == "off" else 6_000_000


def library(file: Path, platform: Platform) -> list[str]:
    """Checks a native library and its size. Users download the library of one platform only."""
    assert file.stat().st_size < MOST_BYTES, f"{file} is too large"
    return compiled(file, platform)
