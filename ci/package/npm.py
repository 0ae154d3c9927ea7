"""Packs the Node package, a package with the native library for each platform, and the package for WebAssembly."""

import json
import shutil
from pathlib import Path
from typing import Any

import building
from building import DIST, LICENCES, ROOT, TARGET, run
from platforms import ELSEWHERE, PLATFORMS, Elsewhere, Platform
from version import version

PACKAGE = ROOT / "packages" / "node"
WEB = ROOT / "packages" / "web"
CHECKS = ROOT / "ci" / "package" / "node" / "node_modules" / ".bin"
STAGED = TARGET / "npm"
#: The common fields of the packages' manifests.
COMMON = ("description", "license", "repository", "engines")


def name_of(platform: Platform | Elsewhere) -> str:
    return f"steadlock-{platform.npm}"


def file_of(platform: Platform | Elsewhere) -> str:
    """Returns the name of the native library in the package of its platform."""
    return f"steadlock.{platform.npm}.node"


def build(platform: Platform | Elsewhere, library: Path) -> Path:
    """Packs the package of one platform."""
    folder = fresh(platform.npm)
    file = file_of(platform)
    shutil.copyfile(library, folder / file)
    main = manifest(PACKAGE)
    fields = {"name": name_of(platform), "version": version(), **{key: main[key] for key in COMMON}}
    fields["description"] = f"The native library of the package steadlock for {platform.npm}"
    fields |= wanted(platform) | {"main": file, "files": [file, *LICENCES]}
    describe(folder, fields)
    (folder / "README.md").write_text(
        f"# {name_of(platform)}\n\nThe native library of [steadlock](https://www.npmjs.com/package/steadlock) "
        f"for {platform.npm}. Install `steadlock`; npm adds this package where it fits.\n"
    )
    return pack(folder)


def wanted(platform: Platform | Elsewhere) -> dict[str, list[str]]:
    """Returns the fields by which npm decides whether a package fits a machine."""
    if isinstance(platform, Elsewhere):
        return {"os": [platform.os], "cpu": [platform.cpu]}
    return {"os": ["linux"], "cpu": [platform.cpu], "libc": [platform.libc]}


def main_package() -> Path:
    """Packs the package that users install. Its optional dependencies are the packages of the platforms."""
    platforms = {name_of(platform): version() for platform in (*PLATFORMS, *ELSEWHERE)}
    more = {"optionalDependencies": platforms, "publishConfig": {"access": "public", "provenance": True}}
    return pack(staged(PACKAGE, more, "native/binding.d.ts"))


def web_package() -> Path:
    """Packs the package for WebAssembly, which must have been built."""
    return pack(staged(WEB, {}))


def staged(package: Path, more: dict[str, Any], *files: str) -> Path:
    """Makes a folder with a package's built files and the given ones. Its manifest has the fields of `more`, and no
    scripts or development dependencies, as users build nothing."""
    fields = manifest(package)
    folder = fresh(fields["name"])
    shutil.copytree(package / "dist", folder / "dist")
    for file in (*files, "README.md"):
        (folder / file).parent.mkdir(exist_ok=True)
        shutil.copy(package / file, folder / file)
    del fields["scripts"], fields["devDependencies"]
    describe(folder, fields | {"files": ["dist", *files, *LICENCES]} | more)
    return folder


def describe(folder: Path, fields: dict[str, Any]) -> None:
    """Writes the manifest of a package."""
    (folder / "package.json").write_text(json.dumps(fields, indent=2) + "\n")


def check_packed(tarball: Path) -> list[str]:
    """Checks a package's manifest and types with third-party tools, and returns their names."""
    run([CHECKS / "publint", "--strict", tarball])
    # This entry point has no types, and programs that import it need none.
    chosen = ["--exclude-entrypoints", "steadlock.wasm", "--profile", "esm-only"] if "-web-" in tarball.name else []
    run([CHECKS / "attw", tarball, *chosen])
    return ["publint", "attw"]


def native(platform: Platform) -> Path:
    return building.libraries(platform) / "libsteadlock_node.so"


def manifest(package: Path) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads((package / "package.json").read_text())
    assert fields["version"] == version()
    return fields


def fresh(name: str) -> Path:
    folder = STAGED / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for licence in LICENCES:
        shutil.copy(ROOT / licence, folder)
    return folder


def pack(folder: Path) -> Path:
    (DIST / "npm").mkdir(parents=True, exist_ok=True)
    packed = json.loads(run(["npm", "pack", "--json", "--pack-destination", DIST / "npm", folder]))
    return DIST / "npm" / str(packed[0]["filename"])
