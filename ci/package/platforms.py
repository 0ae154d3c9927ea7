"""The platforms that packages are built for here, as each ecosystem names them."""

import platform
from typing import Literal, NamedTuple

#: No artefact needs a newer one. Debian 10, RHEL 8 and Amazon Linux 2023 have it.
GLIBC = (2, 28)


class Platform(NamedTuple):
    """A processor and a C library of Linux."""

    #: Rust's name.
    triple: str
    #: What pip calls the system.
    wheel: str
    #: npm's words.
    cpu: Literal["x64", "arm64"]
    libc: Literal["glibc", "musl"]
    #: The folder in which JNA looks.
    jna: str

    @property
    def machine(self) -> str:
        return self.triple.partition("-")[0]

    @property
    def npm(self) -> str:
        """As Node's packages name it."""
        return f"linux-{self.cpu}-{'gnu' if self.libc == 'glibc' else 'musl'}"

    @property
    def emulator(self) -> tuple[str, ...]:
        """What runs its programs here: nothing, or QEMU."""
        return () if self.machine == this_machine() else (f"qemu-{self.machine}-static",)

    @property
    def zig(self) -> str:
        """The triple with the oldest C library that programs may meet."""
        return f"{self.triple}.{GLIBC[0]}.{GLIBC[1]}" if self.libc == "glibc" else self.triple


PLATFORMS = (
    Platform("x86_64-unknown-linux-gnu", "manylinux_2_28_x86_64", "x64", "glibc", "linux-x86-64"),
    Platform("x86_64-unknown-linux-musl", "musllinux_1_2_x86_64", "x64", "musl", "linux-x86-64"),
    Platform("aarch64-unknown-linux-gnu", "manylinux_2_28_aarch64", "arm64", "glibc", "linux-aarch64"),
    Platform("aarch64-unknown-linux-musl", "musllinux_1_2_aarch64", "arm64", "musl", "linux-aarch64"),
)


def this_machine() -> str:
    """Its processor, by Rust's name."""
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())


class Elsewhere(NamedTuple):
    """A system that is no Linux: packages for it are built on a machine of its own, by ci/release/elsewhere.py."""

    #: How a wheel's name ends.
    wheel: str
    #: npm's words.
    os: Literal["darwin", "win32"]
    cpu: Literal["x64", "arm64"]
    #: What cargo calls Node's native library.
    library: str

    @property
    def npm(self) -> str:
        """As Node's packages name it."""
        return f"{self.os}-{self.cpu}{'-msvc' if self.os == 'win32' else ''}"


#: Built, and not supported until its tests have run there.
ELSEWHERE = (
    Elsewhere("macosx_11_0_arm64", "darwin", "arm64", "libsteadlock_node.dylib"),
    Elsewhere("macosx_10_12_x86_64", "darwin", "x64", "libsteadlock_node.dylib"),
    Elsewhere("win_amd64", "win32", "x64", "steadlock_node.dll"),
)


def here(libc: str = "glibc") -> Platform:
    """This machine's processor, with one of the C libraries: what is built for it runs here."""
    for one in PLATFORMS:
        if one.machine == this_machine() and one.libc == libc and platform.system() == "Linux":
            return one
    raise SystemExit(f"package: nothing is built for {platform.system()} on {platform.machine()} here")
