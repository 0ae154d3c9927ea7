"""Packs the command `steadlock`: one static file, the completions for shells, and manual pages."""

import gzip
import io
import re
import tarfile
from pathlib import Path

import building
import checks
from building import DIST, LICENCES, ROOT, commit_time, run
from platforms import Platform
from version import version

SHELLS = {"bash": "steadlock.bash", "zsh": "_steadlock", "fish": "steadlock.fish"}


def build(platform: Platform) -> Path:
    assert platform.libc == "musl"
    return building.build(platform, "steadlock-cli", is_library=False) / "steadlock"


def archive(platform: Platform) -> Path:
    return DIST / "command" / f"{name_of(platform)}.tar.gz"


def name_of(platform: Platform) -> str:
    return f"steadlock-{version()}-linux-{platform.machine}"


def pack(program: Path, platform: Platform) -> Path:
    """Packs the command. The archive is identical for identical files."""
    name = name_of(platform)
    command: list[str | Path] = [*platform.emulator, program]
    files = {"steadlock": program.read_bytes()}
    for shell, file in SHELLS.items():
        files[f"completions/{file}"] = run([*command, "completions", shell]).encode()
    manual = run([*command, "manual"])
    files["man1/steadlock.1"] = manual.encode()
    for found in re.findall(r"^steadlock\\-(\w+)\(1\)$", manual, re.MULTILINE):
        files[f"man1/steadlock-{found}.1"] = run([*command, "manual", found]).encode()
    files |= {file: (ROOT / file).read_bytes() for file in LICENCES}
    target = archive(platform)
    target.parent.mkdir(parents=True, exist_ok=True)
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as packed:
        for file, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"{name}/{file}")
            entry.size, entry.mtime = len(content), int(commit_time())
            entry.mode = 0o755 if file == "steadlock" else 0o644
            packed.addfile(entry, io.BytesIO(content))
    target.write_bytes(gzip.compress(written.getvalue(), mtime=int(commit_time())))
    return target


def check(program: Path, platform: Platform) -> list[str]:
    found = checks.compiled(program, platform)
    assert found[0] == "static", f"{program} is not static"
    return found
