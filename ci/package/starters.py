"""Packs the starters for Spring Boot and their common component: jars and poms for Maven Central.

The starters are compiled against the jar that `jars` packs, so `jars` must have run before.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import central
import jars
import local_repository
from building import DIST, OWN_LICENCES, ROOT, TARGET, run

PACKAGE = ROOT / "packages" / "spring"
BUILT = TARGET / "spring"
#: The components, each with its folder.
MODULES = {name: ROOT / folder for name, folder in central.COMPONENTS.items() if name != jars.ARTIFACT}
#: The component on which the starters depend.
COMMON = next(iter(MODULES))


def build() -> Iterator[tuple[Path, list[str]]]:
    """Packs all components, and yields each file with the checks that it passed."""
    shutil.rmtree(BUILT, ignore_errors=True)
    local = local_repository.without_ours(BUILT / "m2")
    core = local / jars.target("").parent.relative_to(DIST / "maven")
    core.mkdir(parents=True)
    for part in (".pom", ".jar"):
        shutil.copy(jars.target(part), core)
    where = [f"-Dmaven.repo.local={local}", f"-Dbuild.folder={BUILT}/${{project.artifactId}}"]
    run([*jars.MAVEN, "--file", PACKAGE / "pom.xml", *where, "compile", "javadoc:javadoc-no-fork"])
    for name, folder in MODULES.items():
        yield from component(name, folder)


def component(name: str, folder: Path) -> Iterator[tuple[Path, list[str]]]:
    pom = jars.target(".pom", name)
    pom.parent.mkdir(parents=True, exist_ok=True)
    pom.write_text(central.pom(folder / "pom.xml"))
    yield pom, ["Central's elements"]
    licences = jars.licences(OWN_LICENCES)
    parts = {
        "": jars.files_in(BUILT / name / "classes"),
        "sources": jars.files_in(folder / "src/main/java") | jars.files_in(folder / "src/main/resources"),
        "javadoc": jars.files_in(BUILT / name / "reports" / "apidocs"),
    }
    for part, entries in parts.items():
        assert entries, f"{name} has nothing for {part or 'its jar'}"
        yield jars.pack(part, entries | licences, artifact=name), []
