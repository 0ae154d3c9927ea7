"""The list of all files of a release."""

import hashlib
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "package"))

from central import COMPONENTS, place
from crates import PUBLISHED
from platforms import ELSEWHERE, PLATFORMS

HERE = "./ci/just package --all"
OTHER_SYSTEMS = "ci/release/elsewhere.py, on such a machine"
#: The files that the Central Portal requires for each component.
COMPONENT_FILES = (".pom", ".jar", "-sources.jar", "-javadoc.jar")
#: Further files of the component `steadlock`: Gradle's metadata, the native libraries, and the jar with all of them.
OF_THE_CORE = (".module", *(f"-linux-{one.machine}.jar" for one in PLATFORMS if one.libc == "glibc"), "-all.jar")
SUMS = "SHA256SUMS"
#: Other files in dist/ that are not artefacts: the checksums, and the table of `package`.
OTHER_FILES = {SUMS, "table.json"}


class Artefact(NamedTuple):
    #: The path below dist/.
    file: str
    made_by: str


def complete(version: str) -> list[Artefact]:
    """Returns all artefacts in the order of publication: each after those that it depends on."""
    wheel = f"python/steadlock-{python_version(version)}-cp311-abi3-{{}}.whl"
    here = [
        *(f"command/steadlock-{version}-linux-{one.machine}.tar.gz" for one in PLATFORMS if one.libc == "musl"),
        f"python/steadlock-{python_version(version)}.tar.gz",
        *(wheel.format(one.wheel) for one in PLATFORMS),
        *(f"crates/{name}-{version}.crate" for name in PUBLISHED),
        *(f"npm/steadlock-{one.npm}-{version}.tgz" for one in PLATFORMS),
    ]
    elsewhere = [
        file for one in ELSEWHERE for file in (wheel.format(one.wheel), f"npm/steadlock-{one.npm}-{version}.tgz")
    ]
    return [
        *(Artefact(file, HERE) for file in here),
        *(Artefact(file, OTHER_SYSTEMS) for file in elsewhere),
        Artefact(f"npm/steadlock-web-{version}.tgz", HERE),
        Artefact(f"npm/steadlock-{version}.tgz", HERE),
        *(Artefact(f"maven/{file}", HERE) for name in COMPONENTS for file in component(name, version)),
    ]


def component(name: str, version: str) -> list[str]:
    """Returns the files of a component in a Maven repository."""
    parts = (*COMPONENT_FILES, *OF_THE_CORE) if name == "steadlock" else COMPONENT_FILES
    return [place(name, version, part) for part in parts]


def python_version(version: str) -> str:
    """Returns the version as PyPI writes it: 0.2.0-rc.1 becomes 0.2.0rc1."""
    number, _, sort = version.partition("-")
    return number + sort.replace("alpha", "a").replace("beta", "b").replace(".", "")


def missing(folder: Path, version: str) -> list[Artefact]:
    return [one for one in complete(version) if not (folder / one.file).is_file()]


def unexpected(folder: Path, version: str) -> list[str]:
    """Returns the files that do not belong to this release, such as those of another version."""
    known = {one.file for one in complete(version)} | OTHER_FILES
    return [file for file in files(folder) if file not in known and not is_a_part_of_a_component(file, version)]


def is_a_part_of_a_component(file: str, version: str) -> bool:
    """Whether a file is a checksum, a signature or a bill of materials. A component can have any number of these."""
    return file.startswith("maven/") and (f"-{version}" in Path(file).name or Path(file).parent.name == version)


def sums(folder: Path) -> str:
    """Returns the checksums of all artefacts, in the format of `sha256sum --check`."""
    return "".join(
        f"{hashlib.sha256((folder / file).read_bytes()).hexdigest()}  {file}\n"
        for file in files(folder)
        if file not in OTHER_FILES
    )


def files(folder: Path) -> list[str]:
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
