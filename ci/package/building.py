"""Builds the native parts, so that they run on old systems and contain nothing about the machine that built them."""

import functools
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path

from platforms import Platform

ROOT = Path(__file__).resolve().parents[2]
#: The folder of cargo's builds, also of those for tests: they share what runs during a build, such as macros.
CARGO_TARGET = ROOT / "target"
#: The folder of everything else that is made for packages.
TARGET = CARGO_TARGET / "package"
#: The folder of the scripts by which cargo-zigbuild calls Zig.
WRAPPERS = TARGET / "zig"
DIST = ROOT / "dist"
VENV = Path(sys.executable).parent
OWN_LICENCES = ("LICENSE-APACHE", "LICENSE-MIT")
#: The licence files of each artefact that contains crates.
LICENCES = (*OWN_LICENCES, "THIRD-PARTY-LICENSES.txt")


def run(command: Sequence[str | Path], folder: Path = ROOT, **environment: str) -> str:
    """Runs a command and returns its output. If it fails, ends this program with its errors."""
    surroundings = os.environ | environment
    # Windows starts npm only by its full name, npm.cmd.
    program = shutil.which(command[0], path=surroundings["PATH"]) or command[0]
    done = subprocess.run(
        [program, *command[1:]],
        cwd=folder,
        env=surroundings,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"package: {' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as opened:
        # Newer versions of Python require a filter; the one of Debian 12 has none.
        opened.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        opened.extractall(folder)


@functools.cache
def commit_time() -> str:
    """Returns the time for files in archives, in seconds: that of the commit, so that two builds are identical."""
    return run(["git", "log", "-1", "--format=%ct"]).strip()


def commit_moment() -> time.struct_time:
    """Returns the same time in its parts."""
    return time.gmtime(int(commit_time()))


def private_folders() -> dict[Path, str]:
    """Returns folders of this machine that compilers would write into their output, each with its replacement."""
    cargo = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    return {cargo / "registry" / "src": "/crates", CARGO_TARGET: "/target", ROOT: "/steadlock"}


def environment(platform: Platform, is_library: bool = True) -> dict[str, str]:
    folders = private_folders().items()
    flags = [f"--remap-path-prefix={folder}={instead}" for folder, instead in folders]
    if platform.libc == "musl" and is_library:
        # A library uses the C library of the program, so it must not contain its own.
        flags.append("-Ctarget-feature=-crt-static")
    c_flags = " ".join(f"-ffile-prefix-map={folder}={instead}" for folder, instead in folders)
    return {
        "PATH": f"{VENV}{os.pathsep}{os.environ['PATH']}",
        "CARGO_TARGET_DIR": str(CARGO_TARGET),
        "CARGO_ZIGBUILD_CACHE_DIR": str(WRAPPERS),
        "CARGO_INCREMENTAL": "0",
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
        f"CFLAGS_{platform.triple.replace('-', '_')}": c_flags,
        "SOURCE_DATE_EPOCH": commit_time(),
    }


def build(platform: Platform, *packages: str, is_library: bool = True) -> Path:
    """Builds these packages of the workspace, and returns the folder with the results."""
    chosen = [word for package in packages for word in ("--package", package)]
    words = ["cargo", "zigbuild", "--release", "--locked", "--quiet", "--target", platform.zig, *chosen]
    run(words, ROOT, **environment(platform, is_library))
    return CARGO_TARGET / platform.triple / "release"


@functools.cache
def libraries(platform: Platform) -> Path:
    """Builds the libraries of Node and the JVM, and returns the folder with them. One call builds both, so that each
    crate is compiled once. maturin builds the library of Python."""
    return build(platform, "steadlock-node", *(["steadlock-jvm"] if platform.has_jar else []))


def same_tools(platform: Platform) -> dict[str, str]:
    """Returns the environment in which maturin compiles with the tools of `libraries`. maturin would write such scripts
    of its own, and for other tools cargo compiles every crate again."""
    libraries(platform)
    compiler = max(WRAPPERS.rglob(f"zigcc-{platform.zig}-*"), key=lambda script: script.stat().st_mtime)
    (compiler_of_cpp,) = compiler.parent.glob(f"zigcxx-{platform.zig}-*")
    triple = platform.triple.replace("-", "_")
    return {
        f"CC_{triple}": str(compiler),
        f"CXX_{triple}": str(compiler_of_cpp),
        f"RANLIB_{triple}": str(compiler.parent / "zigranlib.sh"),
        f"CARGO_TARGET_{triple.upper()}_LINKER": str(compiler),
    }
