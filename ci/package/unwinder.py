"""Makes a wheel use the unwinder of the system instead of Zig's.

When a process exits, Python before 3.14 ends each daemon thread that returns from native code: it unwinds the thread's
stack with glibc's libgcc_s. By default Zig links its own unwinder into a library. Neither unwinder knows the frames of
the other one, so the process crashed. With musl, Python unwinds no stacks.
"""

import sys
from pathlib import Path

import checks
from building import TARGET, run
from platforms import Platform

LIBRARY = "libgcc_s.so.1"
#: The functions of libgcc_s that Rust calls.
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
#: The functions that the stand-in for libgcc_s defines. If one were missing, the linker would use Zig's for all.
NAMES = CALLED | {"Find_FDE", "FindEnclosingFunction", "ForcedUnwind", "GetCFA", "GetGR", "Resume_or_Rethrow"}


def flags(platform: Platform) -> list[str]:
    """Returns the options with which rustc links libgcc_s before Zig's unwinder."""
    if platform.libc != "glibc":
        return []
    return ["-L", f"native={stand_in(platform)}", "-l", f"dylib:+verbatim={LIBRARY}"]


def is_used(native: Path, platform: Platform) -> bool:
    """Whether a library uses libgcc_s and has no unwinder of Zig's."""
    if platform.libc != "glibc":
        return True
    called = {f"_Unwind_{name}" for name in CALLED}
    return LIBRARY in checks.libraries_needed(native) and called <= checks.symbols_needed(native)


def stand_in(platform: Platform) -> Path:
    """Makes a folder with a stand-in for libgcc_s that only defines the names. This machine has no real libgcc_s for
    other processors."""
    folder = TARGET / "unwinder" / platform.triple
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "names.c"
    source.write_text("".join(f"void _Unwind_{name}(void) {{}}\n" for name in sorted(NAMES)))
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", f"{platform.machine}-linux-gnu"]
    run([*zig, "-shared", "-nostdlib", f"-Wl,-soname,{LIBRARY}", "-o", folder / LIBRARY, source])
    return folder
