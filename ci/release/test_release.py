"""Tests releases without a network: their files, mistakes that stop them, and packages that are published already."""

import base64
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import artefacts
import names
import portal
import registries
import release
from central import COMPONENTS
from registries import Step

HERE = Path(__file__).resolve().parent
VERSION = "7.8.9"
CHANGELOG = f"""# Changelog

## [Unreleased]

## [{VERSION}] - 2026-12-31

### Added

- A thing.

## [7.8.8] - 2026-01-01

- Another.
"""


@pytest.fixture
def dist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all artefacts of a version. Each file has only its own name as content."""
    folder = tmp_path / "dist"
    for one in artefacts.complete(VERSION):
        file = folder / one.file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(one.file.encode())
    monkeypatch.setattr(release, "DIST", folder)
    monkeypatch.setattr(release, "version", lambda: VERSION)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A git repository with a version and a changelog."""
    (tmp_path / "Cargo.toml").write_text(f'[workspace.package]\nversion = "{VERSION}"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    return tmp_path


def test_the_tag_of_a_version_in_the_changelog_is_accepted(root: Path) -> None:
    assert release.mistakes(f"v{VERSION}", root) == []
    assert release.notes(VERSION, root) == "### Added\n\n- A thing."


def test_another_tag_is_refused(root: Path) -> None:
    assert "the tag is v7.9.0, but the version is 7.8.9" in release.mistakes("v7.9.0", root)[0]


def test_a_version_without_a_dated_entry_in_the_changelog_is_refused(root: Path) -> None:
    for text in (
        "## [Unreleased]\n\n- A thing.\n",
        f"## [{VERSION}]\n\n- A thing.\n",
        f"## [{VERSION}] - 2026-12-31\n",
    ):
        (root / "CHANGELOG.md").write_text(text)
        assert "CHANGELOG.md has no section [7.8.9]" in release.mistakes(f"v{VERSION}", root)[0]
    assert release.mistakes(None, root) == []


def test_a_package_that_has_another_version_is_refused(root: Path) -> None:
    (root / "package.json").write_text('{ "name": "steadlock", "version": "7.8.8" }\n')
    subprocess.run(["git", "add", "."], cwd=root, check=True)
    assert release.mistakes(None, root) == ["package.json:1 has the version 7.8.8, not 7.8.9"]


def test_a_complete_set_has_its_checksums_written(dist: Path) -> None:
    (dist / "table.json").touch()
    release.assemble(dist)
    lines = (dist / "SHA256SUMS").read_text().splitlines()
    assert len(lines) == len(artefacts.complete(VERSION))
    digest = hashlib.sha256(f"npm/steadlock-{VERSION}.tgz".encode()).hexdigest()
    assert f"{digest}  npm/steadlock-{VERSION}.tgz" in lines
    # A second run does not count the file itself.
    release.assemble(dist)
    assert (dist / "SHA256SUMS").read_text().splitlines() == lines


@pytest.mark.parametrize("missing", artefacts.complete(VERSION), ids=lambda one: Path(one.file).name)
def test_a_missing_artefact_stops_a_release(dist: Path, missing: artefacts.Artefact) -> None:
    (dist / missing.file).unlink()
    with pytest.raises(SystemExit, match=f"{missing.file} is missing: {missing.made_by}"):
        release.assemble(dist)
    assert not (dist / "SHA256SUMS").exists()


def test_an_artefact_of_another_version_stops_a_release(dist: Path) -> None:
    (dist / "npm" / "steadlock-7.8.8.tgz").touch()
    (dist / "maven" / "io" / "github" / "steadlock" / "steadlock" / "7.8.8").mkdir()
    (dist / "maven" / "io" / "github" / "steadlock" / "steadlock" / "7.8.8" / "steadlock-7.8.8.pom").touch()
    with pytest.raises(SystemExit, match=r"7\.8\.8\.pom is no part of 7\.8\.9\n.*steadlock-7\.8\.8\.tgz is no part of"):
        release.assemble(dist)


def test_checksums_belong_to_their_component(dist: Path) -> None:
    (dist / f"maven/io/github/steadlock/steadlock/{VERSION}/steadlock-{VERSION}.jar.sha512").touch()
    (dist / f"maven/steadlock-{VERSION}-bundle.zip").touch()
    assert artefacts.unexpected(dist, VERSION) == []


def test_python_has_its_own_spelling_of_a_version() -> None:
    assert artefacts.python_version("0.2.0") == "0.2.0"
    assert artefacts.python_version("0.2.0-rc.1") == "0.2.0rc1"
    assert artefacts.python_version("0.2.0-beta.2") == "0.2.0b2"


def test_npm_gets_the_packages_of_the_platforms_before_the_main_package(dist: Path) -> None:
    names = [step.name for step in registries.npm(dist, VERSION)]
    assert len(names) == 9
    assert names[-1] == f"steadlock-{VERSION}.tgz"


def test_a_prerelease_is_not_the_default_version(dist: Path) -> None:
    assert all(step.command[-2:] == ["--tag", "next"] for step in registries.npm(dist, "7.8.9-rc.1"))
    assert not any("--tag" in step.command for step in registries.npm(dist, VERSION))
    assert "--prerelease" in registries.github(dist, "7.8.9-rc.1", "notes")[0].command
    assert "--prerelease" not in registries.github(dist, VERSION, "notes")[0].command


def test_published_versions_are_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    ran: list[list[str]] = []
    steps = [Step("a", ["publish", "a"], lambda: True), Step("b", ["publish", "b"], lambda: False)]
    registries.publish(steps, ran.append)
    assert ran == [["publish", "b"]]
    assert capsys.readouterr().out == "a: is published already\nb: publishing\n"


def test_the_first_failed_command_ends_the_release() -> None:
    ran: list[str] = []

    def run(command: list[str]) -> None:
        ran.append(command[-1])
        registries.run([sys.executable, "-c", "raise SystemExit(3)"])

    steps = [Step(name, [name], lambda: False) for name in ("a", "b")]
    with pytest.raises(SystemExit, match="failed with 3"):
        registries.publish(steps, run)
    assert ran == ["a"]


def tarball(folder: Path, version: str = VERSION) -> Path:
    file = folder / "package.tgz"
    content = json.dumps({"name": "steadlock-linux-x64-gnu", "version": version}).encode()
    with tarfile.open(file, "w:gz") as archive:
        entry = tarfile.TarInfo("package/package.json")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return file


def test_the_version_and_the_content_at_npm_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tarball(tmp_path)
    digest = base64.b64encode(hashlib.sha512(file.read_bytes()).digest()).decode()
    answers: list[str | None] = [
        None,
        json.dumps({"dist": {"integrity": f"sha512-{digest}"}}),
        json.dumps({"dist": {"integrity": "sha512-other"}}),
    ]
    requested: list[str] = []

    def get(url: str) -> str | None:
        requested.append(url)
        return answers.pop(0)

    monkeypatch.setattr(registries, "get", get)
    assert not registries.is_on_npm(file, VERSION)
    assert registries.is_on_npm(file, VERSION)
    with pytest.raises(SystemExit, match=r"npm has another steadlock-linux-x64-gnu 7\.8\.9"):
        registries.is_on_npm(file, VERSION)
    assert requested[0] == "https://registry.npmjs.org/steadlock-linux-x64-gnu/7.8.9"


def test_a_tarball_of_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"has the version 7\.8\.8, not 7\.8\.9"):
        registries.name_in(tarball(tmp_path, "7.8.8"), VERSION)


def test_crates_io_has_a_line_for_each_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registries, "get", lambda url: '{"vers":"7.8.8"}\n{"vers":"7.8.9"}\n')
    assert registries.is_on_crates_io("steadlock", "7.8.9")
    assert not registries.is_on_crates_io("steadlock", "7.8.7")
    monkeypatch.setattr(registries, "get", lambda url: None)
    assert not registries.is_on_crates_io("steadlock", "7.8.9")


def test_a_bundle_has_a_signature_and_checksums_of_each_file(dist: Path, tmp_path: Path) -> None:
    target = tmp_path / "bundle.zip"
    # An old checksum is replaced by a new one.
    (dist / f"maven/io/github/steadlock/steadlock/{VERSION}/steadlock-{VERSION}.jar.md5").write_text("old")
    portal.bundle(dist / "maven", target, lambda file: f"signature of {file.name}".encode())
    folder = f"io/github/steadlock/steadlock/{VERSION}/steadlock-{VERSION}"
    with zipfile.ZipFile(target) as archive:
        made = ("", ".asc", ".md5", ".sha1")
        files = [file for name in COMPONENTS for file in artefacts.component(name, VERSION)]
        assert f"{folder}-linux-x86_64.jar" in files
        assert f"io/github/steadlock/steadlock-spring/{VERSION}/steadlock-spring-{VERSION}.pom" in files
        assert sorted(archive.namelist()) == sorted(f"{file}{one}" for file in files for one in made)
        assert archive.read(f"{folder}.jar.asc") == f"signature of steadlock-{VERSION}.jar".encode()
        assert archive.read(f"{folder}.jar.sha1").decode() == hashlib.sha1(archive.read(f"{folder}.jar")).hexdigest()


def test_the_portal_is_polled_until_it_publishes(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = ["d-1\n", *(f'{{"deploymentState": "{state}"}}' for state in ("PENDING", "VALIDATING", "PUBLISHING"))]
    requested: list[str] = []

    def post(address: str, *_: str) -> str:
        requested.append(address)
        return answers.pop(0)

    monkeypatch.setattr(portal, "post", post)
    monkeypatch.setattr(portal, "SECONDS_BETWEEN", 0)
    portal.upload(Path("bundle.zip"), "steadlock 7.8.9")
    assert requested == ["upload?publishingType=AUTOMATIC&name=steadlock%207.8.9", *["status?id=d-1"] * 3]


def test_a_bundle_that_the_portal_refuses_fails_with_its_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = json.dumps({"deploymentState": "FAILED", "errors": {"steadlock": ["no signature"]}})
    monkeypatch.setattr(portal, "post", lambda *_: answer)
    with pytest.raises(SystemExit, match="no signature"):
        portal.wait("d-1")


def test_a_dry_run_reports_skipped_steps_and_fails_for_missing_artefacts(
    dist: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(release, "mistakes", lambda tag: [])
    monkeypatch.setattr(names, "verdict", lambda post, name: names.FREE)
    monkeypatch.setattr(release, "rehearsed_pypi", lambda: release.Row("pypi", "checked"))
    monkeypatch.setattr(release, "rehearsed_npm", lambda: iter([release.Row("npm", "packed")]))
    for one in artefacts.complete(VERSION):
        if one.made_by != artefacts.HERE:
            (dist / one.file).unlink()
    monkeypatch.setattr(release, "notes", lambda number: "")
    assert release.dry_run(with_cargo=False) == 0
    output = capsys.readouterr().out
    assert "CHANGELOG.md has no section [" in output
    assert "made by ci/release/elsewhere.py, on such a machine" in output
    assert "bundle of " in output
    order = "steadlock-collections, steadlock-protocol, steadlock-resp, steadlock-store, steadlock, steadlock-cli"
    assert f"in this order: {order}" in output
    (dist / f"npm/steadlock-linux-arm64-musl-{VERSION}.tgz").unlink()
    assert release.dry_run(with_cargo=False) == 1
    assert "missing: made by ./ci/just package --all" in capsys.readouterr().out


def test_failed_commands_are_shown_with_their_output() -> None:
    row = release.run_step("step", [sys.executable, "-c", "raise SystemExit('no such thing')"], "done")
    assert "no such thing" in row.wrong
    assert release.run_step("step", ["no-such-program"], "done").skipped == "no-such-program is not installed"
    assert release.run_step("step", [sys.executable, "-c", ""], "done") == release.Row("step", "done")
