"""What Maven Central wants of artefacts beside the jars: a pom that says who and where, checksums, and signatures.

central.py KEY    signs what dist/maven has with a key of gpg, and writes dist/central.zip, which Central takes
"""

import argparse
import hashlib
import re
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

from building import DIST, run

NAMESPACE = "http://maven.apache.org/POM/4.0.0"
#: What a published pom says; the rest is how to build.
SAID = (
    *("modelVersion", "groupId", "artifactId", "version"),
    *("name", "description", "url", "licenses", "developers", "scm", "dependencies"),
)
CHECKSUMS = ("md5", "sha1", "sha256", "sha512")
BUNDLE = DIST / "central.zip"


def pom(file: Path) -> str:
    """A pom without what only its own build needs."""
    ElementTree.register_namespace("", NAMESPACE)
    project = ElementTree.parse(file).getroot()
    found = {tag(one): one for one in project}
    missing = [name for name in SAID if name not in found]
    assert not missing, f"{file} does not say its {', '.join(missing)}"
    dependencies = found["dependencies"]
    for dependency in dependencies.findall("{*}dependency"):
        if dependency.findtext("{*}scope") == "test":
            dependencies.remove(dependency)
    for element in list(project):
        if tag(element) not in SAID:
            project.remove(element)
    ElementTree.indent(project)
    text = ElementTree.tostring(project, "unicode", xml_declaration=False)
    values = properties(file)
    filled = re.sub(r"\$\{([^}]+)\}", lambda name: values[name[1]], text)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{filled}\n'


def properties(file: Path) -> dict[str, str]:
    return {tag(one): one.text or "" for one in ElementTree.parse(file).getroot().findall("{*}properties/*")}


def tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def artefacts(folder: Path) -> list[Path]:
    """The files of a version, without what belongs to one of them."""
    endings = (".asc", *(f".{name}" for name in CHECKSUMS))
    return sorted(file for file in folder.rglob("*") if file.is_file() and file.suffix not in endings)


def write_checksums(folder: Path) -> None:
    for file in artefacts(folder):
        for name in CHECKSUMS:
            beside(file, name).write_text(hashlib.new(name, file.read_bytes()).hexdigest())


def sign(folder: Path, key: str) -> None:
    for file in artefacts(folder):
        words = ["gpg", "--batch", "--yes", "--quiet", "--local-user", key, "--armor", "--detach-sign"]
        run([*words, "--output", beside(file, "asc"), file])


def bundle(repository: Path, written: Path) -> Path:
    """The archive that is uploaded."""
    with zipfile.ZipFile(written, "w", zipfile.ZIP_STORED) as archive:
        for file in sorted(file for file in repository.rglob("*") if file.is_file()):
            archive.write(file, file.relative_to(repository).as_posix())
    return written


def beside(file: Path, ending: str) -> Path:
    return file.with_name(f"{file.name}.{ending}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Signs what dist/maven has, and packs it for Maven Central.")
    parser.add_argument("key", help="gpg's name of the key: its fingerprint, or a mail address")
    key = parser.parse_args().key
    repository = DIST / "maven"
    if not artefacts(repository):
        parser.error(f"{repository} is empty: run package.py first")
    sign(repository, key)
    print(bundle(repository, BUNDLE))
    return 0


if __name__ == "__main__":
    sys.exit(main())
