"""The platforms for which packages are built, with their names in each ecosystem."""

import platform
from typing import Literal, NamedTuple

#: The newest glibc that an artefact may need. Debian 10, RHEL 8 and Amazon Linux 2023 have it.
GLIBC = (2, 28)


class Platform(NamedTuple):
    """A processor and a C library of Linux."""

    #: Rust's name.
    triple: str
    #: pip's name of the platform.
    wheel: str
    #: npm's names of the processor and of the C library.
    cpu: Literal["x64", "arm64"]
    libc: Literal["glibc", "musl"]
    #: The folder in a jar in which JNA looks for a native library.
    jna: str

    @property
    def machine(self) -> str:
        return self.triple.partition("-")[0]

    @property
    def has_jar(self) -> bool:
        """Whether there is a jar. There is none for musl: JNA's own library needs glibc, and JNA looks for ours in the
        same folder for both."""
        return self.libc == "glibc"

    @property
    def npm(self) -> str:
        """The platform's name in Node's packages."""
        return f"linux-{self.cpu}-{'gnu' if self.libc == 'glibc' else 'musl'}"

    @property
    def emulator(self) -> tuple[str, ...]:
        """The command that runs programs of the platform here: nothing, or QEMU."""
        return () if self.machine == this_machine() else (f"qemu-{self.machine}-static",)

    @property
    def zig(self) -> str:
        """The triple with the oldest C library that the programs must run with."""
        return f"{self.triple}.{GLIBC[0]}.{GLIBC[1]}" if self.libc == "glibc" else self.triple


PLATFORMS = (
    Platform("x86_64-unknown-linux-gnu", "manylinux_2_28_x86_64", "x64", "glibc", "linux-x86-64"),
    Platform("x86_64-unknown-linux-musl", "musllinux_1_2_x86_64", "x64", "musl", "linux-x86-64"),
    Platform("aarch64-unknown-linux-gnu", "manylinux_2_28_aarch64", "arm64", "glibc", "linux-aarch64"),
    Platform("aarch64-unknown-linux-musl", "musllinux_1_2_aarch64", "arm64", "musl", "linux-aarch64"),
)


def this_machine() -> str:
    """Returns Rust's name of this machine's processor."""
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())


class Elsewhere(NamedTuple):
    """A platform other than Linux. ci/release/elsewhere.py builds its packages on a machine of that platform."""

    #: The end of a wheel's name.
    wheel: str
    #: npm's names of the system and of the processor.
    os: Literal["darwin", "win32"]
    cpu: Literal["x64", "arm64"]
    #: cargo's name of Node's native library.
    library: str

    @property
    def npm(self) -> str:
        """The platform's name in Node's packages."""
        return f"{self.os}-{self.cpu}{'-msvc' if self.os == 'win32' else ''}"


#: These platforms are built, and not supported until the tests have run on them.
ELSEWHERE = (
    Elsewhere("macosx_11_0_arm64", "darwin", "arm64", "libsteadlock_node.dylib"),
    Elsewhere("macosx_10_12_x86_64", "darwin", "x64", "libsteadlock_node.dylib"),
    Elsewhere("win_amd64", "win32", "x64", "steadlock_node.dll"),
)


def this_platform(libc: str = "glibc") -> Platform:
    """Returns the platform of this machine's processor with one of the C libraries. Its artefacts run here."""
    for one in PLATFORMS:
        if one.machine == this_machine() and one.libc == libc and platform.system() == "Linux":
            return one
    raise SystemExit(f"package: nothing is built for {platform.system()} on {platform.machine()} here")
