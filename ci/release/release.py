"""Publishes a release from its tag to the registries. See RELEASING.md.

release.py names                       checks that every name in every registry is free or ours
release.py check [TAG]                 checks that all places have one version, which TAG and CHANGELOG.md have too
release.py assemble FOLDER             checks that all artefacts are there and no others; writes their SHA256SUMS
release.py publish REGISTRY [--dry-run] publishes to npm, crates, maven or github; skips what is published already
release.py dry-run [--cargo]           rehearses all of that as far as this machine can, and prints a table

PyPI receives its files from PyPI's own GitHub action, because only that action signs them.
"""

import argparse
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import artefacts
import names
import portal
import registries
from artefacts import HERE, OTHER_SYSTEMS, SUMS
from building import DIST, ROOT
from crates import PUBLISHED
from version import files, places, version

REGISTRIES = ("npm", "crates", "maven", "github")


def mistakes(tag: str | None, root: Path = ROOT) -> list[str]:
    """Returns the reasons why this version cannot be released, apart from its artefacts."""
    ours = version(root)
    found = [
        f"{place.file.relative_to(root)}:{place.line} has the version {place.version}, not {ours}"
        for file in files(root)
        for place in places(file)
        if place.version != ours
    ]
    if tag is not None:
        if tag != f"v{ours}":
            found.append(f"the tag is {tag}, but the version is {ours}: ./ci/just version writes another one")
        if not notes(ours, root):
            found.append(undated(ours))
    return found


def undated(number: str) -> str:
    return f"CHANGELOG.md has no section [{number}] with its date, such as `## [{number}] - 2026-12-31`"


def notes(number: str, root: Path = ROOT) -> str:
    """Returns the section of CHANGELOG.md about a version, or an empty text."""
    section = rf"^## \[{re.escape(number)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)"
    found = re.search(section, (root / "CHANGELOG.md").read_text(), re.DOTALL | re.MULTILINE)
    return found[1].strip() if found else ""


def check(tag: str | None) -> None:
    if found := mistakes(tag):
        raise SystemExit("\n".join(f"release: {one}" for one in found))
    print(f"release: {version()} everywhere" + (", in the tag and in CHANGELOG.md" if tag else ""))


def assemble(folder: Path) -> None:
    absent = [f"{one.file} is missing: {one.made_by}" for one in artefacts.missing(folder, version())]
    foreign = [f"{file} is no part of {version()}" for file in artefacts.unexpected(folder, version())]
    if absent or foreign:
        raise SystemExit("\n".join(f"release: {one}" for one in absent + foreign))
    (folder / SUMS).write_text(artefacts.sums(folder))
    print((folder / SUMS).read_text(), end="")


def show_names() -> None:
    for answer in names.require():
        print(f"release: {answer.name} in {answer.registry} is {answer.verdict}")


def publish(registry: str, is_rehearsal: bool) -> None:
    number = version()
    if registry in names.REGISTRIES and not is_rehearsal:
        names.require([registry])
    if registry == "maven":
        if is_rehearsal:
            print(f"curl --form bundle=@steadlock-{number}-bundle.zip {portal.API}/upload")
        elif portal.is_published(number):
            print(f"Maven Central has {number} already")
        else:
            portal.publish(DIST / "maven", number)
        return
    steps = steps_of(registry)
    if is_rehearsal:
        print("\n".join(shlex.join(step.command) for step in steps))
    else:
        registries.publish(steps, registries.run)


def steps_of(registry: str) -> list[registries.Step]:
    number = version()
    if registry == "npm":
        return registries.npm(DIST, number)
    if registry == "crates":
        return registries.crates(number)
    return registries.github(DIST, number, notes(number))


class Row(NamedTuple):
    """A line of the table of a dry run."""

    step: str
    done: str = ""
    skipped: str = ""
    #: A mistake, which makes the run fail.
    wrong: str = ""


def dry_run(with_cargo: bool) -> int:
    rows = list(rehearsal(with_cargo))
    show(rows)
    wrong = [row for row in rows if row.wrong]
    if wrong:
        print(f"\nrelease: {len(wrong)} of {len(rows)} steps failed", file=sys.stderr)
    return 1 if wrong else 0


def rehearsal(with_cargo: bool) -> Iterator[Row]:
    """Yields every step of a release in order."""
    yield from rehearsed_names()
    number = version()
    found = mistakes(None)
    yield Row(f"version {number}", "" if found else "one everywhere", wrong="\n".join(found))
    # Before the tag exists, the changes may have no version yet.
    is_dated = bool(notes(number))
    yield Row("CHANGELOG.md", "has it" if is_dated else "", "" if is_dated else undated(number))
    yield from rehearsed_assembly(number)
    yield rehearsed_pypi()
    yield from rehearsed_npm()
    yield rehearsed_crates(with_cargo)
    yield rehearsed_maven(number)
    for step in steps_of("github"):
        yield Row(f"github: {step.name}", f"{shlex.join(step.command[:4])} …", "not run: it writes to GitHub")


def rehearsed_names() -> Iterator[Row]:
    for registry in names.REGISTRIES:
        answers = list(names.answers([registry]))
        bad = "\n".join(f"{one.name}: {one.verdict}" for one in answers if not one.is_good)
        listed = ", ".join(f"{one.name} {one.verdict}" for one in answers)
        yield Row(f"names: {registry}", listed, wrong=bad)


def rehearsed_assembly(number: str) -> Iterator[Row]:
    absent = artefacts.missing(DIST, number)
    if count := sum(one.made_by == OTHER_SYSTEMS for one in absent):
        yield Row(f"{count} artefacts", skipped=f"made by {OTHER_SYSTEMS}")
    for one in absent:
        # The artefacts for Linux can be made on any machine that makes releases.
        if one.made_by == artefacts.HERE:
            yield Row(f"artefact {one.file}", wrong=f"missing: made by {one.made_by}")
    for file in artefacts.unexpected(DIST, number):
        yield Row(f"artefact {file}", wrong=f"no part of {number}")
    has = len(artefacts.complete(number)) - len(absent)
    lines = artefacts.sums(DIST).count("\n")
    yield Row("assemble", f"{has} of {len(artefacts.complete(number))} artefacts; {SUMS} has {lines} lines")


def rehearsed_pypi() -> Row:
    packages = [str(file) for file in sorted((DIST / "python").glob("*"))]
    twine = Path(sys.executable).with_name("twine")
    if not packages or not twine.exists():
        return Row("pypi", skipped="nothing in dist/python" if twine.exists() else "twine is not installed")
    return run_step("pypi", [str(twine), "check", "--strict", *packages], f"twine check of {len(packages)} files")


def rehearsed_npm() -> Iterator[Row]:
    for step in steps_of("npm"):
        tarball = Path(step.command[2])
        if not tarball.exists():
            yield Row(f"npm: {step.name}", skipped="no such artefact here")
            continue
        registries.name_in(tarball, version())
        # npm's provenance attests the workflow that built a package, so it works only in a workflow.
        command = [word for word in step.command if word != "--provenance"]
        yield run_step(f"npm: {step.name}", [*command, "--provenance=false", "--dry-run"], "npm publish --dry-run")


def rehearsed_crates(with_cargo: bool) -> Row:
    chosen = [word for name in PUBLISHED for word in ("--package", name)]
    command = ["cargo", "publish", "--locked", "--dry-run", *chosen]
    order = ", ".join(step.name for step in steps_of("crates"))
    if not with_cargo:
        return Row("crates", f"in this order: {order}", "builds for minutes: dry-run --cargo")
    return run_step("crates", command, f"cargo publish --dry-run of {order}")


def rehearsed_maven(number: str) -> Row:
    if not any((DIST / "maven").rglob("*.pom")):
        return Row("maven", skipped=f"nothing in dist/maven: made by {HERE}")
    target = ROOT / "target" / "release-bundle.zip"
    target.parent.mkdir(exist_ok=True)
    packed = portal.bundle(DIST / "maven", target, lambda _: b"not signed\n")
    target.unlink()
    done = f"bundle of {len(packed)} files for {number}"
    return Row("maven", done, "the signing key is in the environment `release`")


def run_step(step: str, command: list[str], done: str) -> Row:
    program = shutil.which(command[0])
    if program is None:
        return Row(step, skipped=f"{command[0]} is not installed")
    ran = subprocess.run([program, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        return Row(step, wrong=f"{printable(command)} failed:\n{ran.stdout}{ran.stderr}")
    return Row(step, done)


def printable(command: list[str]) -> str:
    return shlex.join(command).replace(f"{ROOT}/", "")


def show(rows: list[Row]) -> None:
    cells = [("step", "done", "why skipped, or what is wrong")]
    for row in rows:
        first, _, more = row.wrong.strip().partition("\n")
        cells.append((row.step, "FAILED" if row.wrong else row.done, f"{first} …" if more else first or row.skipped))
    widths = [max(map(len, column)) for column in list(zip(*cells, strict=True))[:2]]
    for step, done, why in cells:
        print(f"{step.ljust(widths[0])}  {done.ljust(widths[1])}  {why}".rstrip())
    for row in rows:
        if "\n" in row.wrong.strip():
            print(f"\n{row.step}:\n{row.wrong}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Takes a release from its tag to the registries.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("names", help="every name in every registry is free, or ours")
    checked = commands.add_parser("check", help="one version everywhere, which is the tag's and in CHANGELOG.md")
    checked.add_argument("tag", nargs="?", help="such as v0.2.0; without it only the version is checked")
    assembled = commands.add_parser("assemble", help="all artefacts are there and no others; writes SHA256SUMS")
    assembled.add_argument("folder", type=Path)
    published = commands.add_parser("publish", help="publishes what is not published yet")
    published.add_argument("registry", choices=REGISTRIES)
    published.add_argument("--dry-run", action="store_true", help="only prints the commands")
    rehearsed = commands.add_parser("dry-run", help="rehearses all of that as far as this machine can")
    rehearsed.add_argument("--cargo", action="store_true", help="`cargo publish --dry-run` too, which builds")
    chosen = parser.parse_args()
    if chosen.command == "names":
        show_names()
    elif chosen.command == "check":
        check(chosen.tag)
    elif chosen.command == "assemble":
        assemble(chosen.folder)
    elif chosen.command == "publish":
        publish(chosen.registry, chosen.dry_run)
    else:
        return dry_run(chosen.cargo)
    return 0


if __name__ == "__main__":
    sys.exit(main())
