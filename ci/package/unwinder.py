"""The unwinder of a wheel is that of the system.

While a process exits, a Python before 3.14 ends each daemon thread that comes back from native code by unwinding its
stack with glibc's libgcc_s. Zig links an unwinder of its own into what it builds, and neither knows the other's frames:
the process crashed. musl unwinds nothing there.
"""

import sys
from pathlib import Path

import checks
from building import TARGET, run
from platforms import Platform

LIBRARY = "libgcc_s.so.1"
#: What Rust calls of it.
CALLED = {
    "Backtrace",
    "DeleteException",
    "GetDataRelBase",
    "GetIP",
    "GetIPInfo",
    "GetLanguageSpecificData",
    "GetRegionStart",
    "GetTextRelBase",
    "RaiseException",
    "Resume",
    "SetGR",
    "SetIP",
}
#: What it has. One name that the linker had to look for elsewhere would bring in Zig's, with all others.
NAMES = CALLED | {"Find_FDE", "FindEnclosingFunction", "ForcedUnwind", "GetCFA", "GetGR", "Resume_or_Rethrow"}


def flags(platform: Platform) -> list[str]:
    """For rustc, which is to link it before Zig's."""
    if platform.libc != "glibc":
        return []
    return ["-L", f"native={stand_in(platform)}", "-l", f"dylib:+verbatim={LIBRARY}"]


def is_used(native: Path, platform: Platform) -> bool:
    """Whether a library has nothing of Zig's."""
    if platform.libc != "glibc":
        return True
    called = {f"_Unwind_{name}" for name in CALLED}
    return LIBRARY in checks.libraries_needed(native) and called <= checks.symbols_needed(native)


def stand_in(platform: Platform) -> Path:
    """A folder with a library of that name that only has the names, as no system of that processor is here."""
    folder = TARGET / "unwinder" / platform.triple
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "names.c"
    source.write_text("".join(f"void _Unwind_{name}(void) {{}}\n" for name in sorted(NAMES)))
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", f"{platform.machine}-linux-gnu"]
    run([*zig, "-shared", "-nostdlib", f"-Wl,-soname,{LIBRARY}", "-o", folder / LIBRARY, source])
    return folder
