"""Packs the jars for Maven Central: one with the classes, one with the native library of each platform, and one with
everything. `starters` packs the jars for Spring.

The jar that `just build-jvm` installs has the classes and the native library of the machine that built it. The
published jar has only the classes, and each library is in a separate jar. A program thus needs only one library, and
no class is twice on a class path.
"""

import functools
import json
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import bill
import building
import central
import checks
import gradle
from building import DIST, LICENCES, ROOT, TARGET, commit_moment, run
from platforms import Platform, this_platform
from version import version

PACKAGE = ROOT / "packages" / "jvm"
BUILT = TARGET / "jvm"
ARTIFACT, MODULE = "steadlock", "io.github.steadlock"
MAVEN = ("mvn", "--batch-mode", "--no-transfer-progress", "--quiet")
CYCLONEDX = "org.cyclonedx:cyclonedx-maven-plugin:2.9.3:makeBom"

#: The content of a jar by the names of its entries.
Entries = dict[str, bytes]


def classifier(platform: Platform) -> str:
    return f"linux-{platform.machine}"


def native(platform: Platform) -> Path:
    return building.libraries(platform) / "libsteadlock_jvm.so"


def build_native(platform: Platform, library: Path) -> Path:
    """Packs the jar with one native library and no class."""
    name = classifier(platform)
    entries = {f"{platform.jna}/{library.name}": library.read_bytes()} | licences()
    return pack(name, entries, module=f"{MODULE}.{name.replace('-', '_')}")


def build() -> Iterator[tuple[Path, list[str]]]:
    """Packs the files that are the same for every platform, and yields each with the checks that it passed.

    `build_native` must have run before."""
    shutil.rmtree(BUILT, ignore_errors=True)
    pom = target(".pom")
    pom.parent.mkdir(parents=True, exist_ok=True)
    pom.write_text(gradle.marked(central.pom(PACKAGE / "pom.xml")))
    yield pom, ["Central's elements"]
    maven("compile")
    classes = files_in(BUILT / "classes")
    assert not any(is_library(name) for name in classes)
    yield pack("", classes, MODULE), ["no library"]
    yield for_gradle(pom), []
    natives = [entries_of(jar) for jar in sorted(target("").parent.glob(f"steadlock-{version()}-linux-*.jar"))]
    libraries = {name: content for entries in natives for name, content in entries.items() if is_library(name)}
    yield pack("all", classes | libraries, MODULE), [f"{len(libraries)} libraries"]
    yield pack("sources", sources()), []
    maven("dokka:javadoc")
    yield pack("javadoc", files_in(BUILT / "dokka") | licences()), []
    yield bill_of(pom), ["CycloneDX"]


def for_gradle(pom: Path) -> Path:
    properties = central.properties(PACKAGE / "pom.xml")
    java, oldest = int(properties["maven.compiler.release"]), {"kotlin-stdlib": properties["kotlin.oldest"]}
    written = target(".module")
    written.write_text(gradle.metadata(pom.read_text(), target(".jar"), java, oldest))
    return written


def maven(*words: str) -> None:
    """Runs Maven without building the native library of this machine, since no jar here has it."""
    run([*MAVEN, "--file", PACKAGE / "pom.xml", f"-Dbuild.folder={BUILT}", "-Dexec.skip", *words])


def is_library(name: str) -> bool:
    return name.endswith(".so")


def sources() -> Entries:
    folders = (
        PACKAGE / "src" / "main" / "kotlin",
        PACKAGE / "src" / "main" / "java",
        PACKAGE / "src" / "main" / "uniffi",
    )
    return functools.reduce(Entries.__or__, map(files_in, folders)) | licences()


def bill_of(pom: Path) -> Path:
    """Writes the software bill of materials: the dependencies by Maven, and the crates in the native library."""
    stamp = f"-Dproject.build.outputTimestamp={bill.stamp()}"
    where = [f"-DoutputDirectory={BUILT / 'bom'}", "-DoutputName=bom", "-DoutputFormat=json"]
    run([*MAVEN, "--file", pom, stamp, *where, CYCLONEDX])
    bom = json.loads((BUILT / "bom" / "bom.json").read_text())
    crates = list(bill.crates("steadlock-jvm", this_platform().triple))
    bom["components"] += crates
    (ours,) = (one for one in bom["dependencies"] if one["ref"] == bom["metadata"]["component"]["bom-ref"])
    ours["dependsOn"] += [crate["bom-ref"] for crate in crates]
    bom["dependencies"] += bill.dependencies(crates)
    written = target("-cyclonedx.json")
    written.write_text(json.dumps(bom, indent=2) + "\n")
    return written


def licences(names: tuple[str, ...] = LICENCES) -> Entries:
    return {f"META-INF/{name}": (ROOT / name).read_bytes() for name in names}


def files_in(folder: Path) -> Entries:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def entries_of(jar: Path) -> Entries:
    with zipfile.ZipFile(jar) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}


def pack(name: str, entries: Entries, module: str = "", artifact: str = ARTIFACT) -> Path:
    """Packs a jar, which is identical for identical files."""
    for entry, content in entries.items():
        paths = checks.paths_in(content)
        assert not paths, f"{entry} names folders of this machine: {paths[:5]}"
    attributes = {"Manifest-Version": "1.0", "Implementation-Title": "Steadlock", "Implementation-Version": version()}
    attributes |= {"Automatic-Module-Name": module} if module else {}
    manifest = "".join(f"{key}: {value}\r\n" for key, value in attributes.items()) + "\r\n"
    written = target(f"-{name}.jar" if name else ".jar", artifact)
    written.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        # Java reads the manifest only if it is the first entry.
        add(archive, "META-INF/MANIFEST.MF", manifest.encode())
        for entry, content in sorted((folders_of(entries) | entries).items()):
            add(archive, entry, content)
    return written


def folders_of(entries: Entries) -> Entries:
    """Returns entries for the folders. Frameworks use them to find packages."""
    parents = {parent.as_posix() for name in entries for parent in Path(name).parents}
    return {f"{parent}/": b"" for parent in parents if parent not in (".", "META-INF")}


def add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, commit_moment()[:6])
    entry.create_system, entry.compress_type = 3, zipfile.ZIP_DEFLATED
    entry.external_attr = (0o40755 if name.endswith("/") else 0o100644) << 16
    archive.writestr(entry, content)


def target(ending: str, artifact: str = ARTIFACT) -> Path:
    """Returns the path of an artefact in dist/maven."""
    return DIST / "maven" / central.place(artifact, version(), ending)
