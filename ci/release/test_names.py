"""Tests the names of a release with the real clients and one fake registry, which stands in for all four."""

import hashlib
import io
import json
import os
import re
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import names
import release
from names import FREE, OURS, Answer

OUR_REPOSITORY = "https://github.com/steadlock/steadlock"
OTHER_REPOSITORY = "https://github.com/somebody/else"
PLUGINS = "https://repo.maven.apache.org/maven2"


class Registry:
    """A fake of PyPI, npm, crates.io and Maven Central, each below a different path."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        #: The status of the reply for everything that is not in `files`.
        self.otherwise = 404
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                content = registry.files.get(path)
                self.send_response(registry.otherwise if content is None else 200)
                self.send_header("Content-Type", "text/html" if path.startswith("/simple/") else "application/json")
                self.send_header("Content-Length", str(len(content or b"")))
                self.end_headers()
                self.wfile.write(content or b"")

            do_HEAD = do_GET  # noqa: N815  (a name of the base class)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.put("/crates/config.json", json.dumps({"dl": f"{self.url}/crate-files", "api": self.url}))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def put(self, path: str, content: str | bytes) -> None:
        self.files[path] = content.encode() if isinstance(content, str) else content

    def has_on_pypi(self, name: str, repository: str, requires: str = ">=3.8", tag: str = "py3-none-any") -> None:
        wheel = f"{name}-1.0-{tag}.whl"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Python: {requires}\n"
        metadata += f"Project-URL: Repository, {repository}\n"
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr(f"{name}-1.0.dist-info/METADATA", metadata)
            archive.writestr(f"{name}-1.0.dist-info/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
            archive.writestr(f"{name}-1.0.dist-info/RECORD", "")
        self.put(f"/files/{wheel}", packed.getvalue())
        requirement = requires.replace(">", "&gt;")
        link = f'<a href="{self.url}/files/{wheel}" data-requires-python="{requirement}">{wheel}</a>'
        self.put(f"/simple/{name}/", f"<!DOCTYPE html><html><body>{link}</body></html>")

    def has_on_npm(self, name: str, repository: str) -> None:
        manifest = {"name": name, "version": "1.0.0", "repository": {"type": "git", "url": f"git+{repository}.git"}}
        dist = {"tarball": f"{self.url}/npm/{name}.tgz", "shasum": "0" * 40}
        document = {"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": manifest | {"dist": dist}}}
        self.put(f"/npm/{name}", json.dumps(document))

    def has_on_crates_io(self, name: str, repository: str) -> None:
        manifest = f'[package]\nname = "{name}"\nversion = "1.0.0"\nedition = "2021"\nrepository = "{repository}"\n'
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for file, content in (("Cargo.toml", manifest), ("src/lib.rs", "")):
                entry = tarfile.TarInfo(f"{name}-1.0.0/{file}")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content.encode()))
        sum_ = hashlib.sha256(packed.getvalue()).hexdigest()
        row = {"name": name, "vers": "1.0.0", "deps": [], "cksum": sum_, "features": {}, "yanked": False}
        self.put(f"/crates/{name[:2]}/{name[2:4]}/{name}", json.dumps(row) + "\n")
        self.put(f"/crate-files/{name}/1.0.0/download", packed.getvalue())

    def has_on_maven_central(self, name: str, repository: str) -> None:
        folder = f"/maven/io/github/steadlock/{name}"
        ids = f"<groupId>io.github.steadlock</groupId><artifactId>{name}</artifactId>"
        self.put(
            f"{folder}/maven-metadata.xml",
            f"<metadata>{ids}<versioning><release>1.0</release><versions><version>1.0</version></versions>"
            "</versioning></metadata>",
        )
        self.put(
            f"{folder}/1.0/{name}-1.0.pom",
            f'<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>{ids}'
            f"<version>1.0</version><scm><url>{repository}</url></scm></project>",
        )


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """A fake registry that the clients of this process use."""
    started = Registry()
    home = tmp_path / "home"
    monkeypatch.setattr(names, "PYPI", f"{started.url}/simple")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setattr(names, "NPM", f"{started.url}/npm")
    monkeypatch.setenv("npm_config_cache", str(home / "npm"))
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    monkeypatch.setattr(names, "CENTRAL", f"{started.url}/maven")
    monkeypatch.setattr(names, "CRATES_IO", "of-the-test")
    monkeypatch.setenv("CARGO_REGISTRIES_OF_THE_TEST_INDEX", f"sparse+{started.url}/crates/")
    monkeypatch.setenv("CARGO_HOME", str(home / "cargo"))
    monkeypatch.setenv("CARGO_NET_RETRY", "0")
    # Maven still loads its plugins from Maven Central.
    write(
        home / ".m2" / "settings.xml",
        f"<settings><mirrors><mirror><id>central</id><mirrorOf>central</mirrorOf><url>{started.url}/maven</url></mirror>"
        "</mirrors><profiles><profile><id>plugins</id><pluginRepositories><pluginRepository><id>plugins</id>"
        f"<url>{PLUGINS}</url></pluginRepository></pluginRepositories></profile></profiles>"
        "<activeProfiles><activeProfile>plugins</activeProfile></activeProfiles></settings>",
    )
    monkeypatch.setenv("MAVEN_OPTS", f"{os.environ.get('MAVEN_OPTS', '')} -Duser.home={home}")
    yield started
    started.server.shutdown()
    started.server.server_close()


def write(file: Path, content: str) -> None:
    file.parent.mkdir(parents=True)
    file.write_text(content)


def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduces the names to one in each registry, because Maven takes seconds for each."""
    chosen = {name: (lookup, list(all_names)[-1:]) for name, (lookup, all_names) in names.REGISTRIES.items()}
    monkeypatch.setattr(names, "REGISTRIES", chosen)


def test_a_release_has_all_names_of_all_registries() -> None:
    names_of = {registry: list(all_names) for registry, (_, all_names) in names.REGISTRIES.items()}
    assert names_of["pypi"] == ["steadlock"]
    assert {"steadlock", "steadlock-web", "steadlock-linux-x64-gnu", "steadlock-darwin-arm64"} <= set(names_of["npm"])
    parts = {"steadlock-collections", "steadlock-protocol", "steadlock-resp", "steadlock-store"}
    assert set(names_of["crates"]) == {"steadlock", "steadlock-cli", *parts}
    assert {"steadlock", "steadlock-spring-boot3-starter", "steadlock-spring-boot4-starter"} <= set(names_of["maven"])


def test_names_that_are_in_no_registry_are_free(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch)
    assert {answer.verdict for answer in names.require()} == {FREE}


def test_packages_with_our_repository_are_ours(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch)
    registry.has_on_pypi("steadlock", OUR_REPOSITORY)
    registry.has_on_npm("steadlock", OUR_REPOSITORY)
    registry.has_on_crates_io("steadlock-cli", OUR_REPOSITORY)
    registry.has_on_maven_central("steadlock-spring-boot4-starter", OUR_REPOSITORY)
    assert names.require() == [
        Answer("pypi", "steadlock", OURS),
        Answer("npm", "steadlock", OURS),
        Answer("crates", "steadlock-cli", OURS),
        Answer("maven", "steadlock-spring-boot4-starter", OURS),
    ]


def test_the_release_stops_for_each_name_of_another_project(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    few(monkeypatch)
    registry.has_on_pypi("steadlock", OTHER_REPOSITORY)
    registry.has_on_npm("steadlock", OTHER_REPOSITORY)
    registry.has_on_crates_io("steadlock-cli", OTHER_REPOSITORY)
    registry.has_on_maven_central("steadlock-spring-boot4-starter", OTHER_REPOSITORY)
    with pytest.raises(SystemExit) as stopped:
        names.require()
    assert str(stopped.value).splitlines() == [
        f"release: steadlock in pypi: another project's: {OTHER_REPOSITORY}",
        f"release: steadlock in npm: another project's: {OTHER_REPOSITORY}",
        f"release: steadlock-cli in crates: another project's: {OTHER_REPOSITORY}",
        f"release: steadlock-spring-boot4-starter in maven: another project's: {OTHER_REPOSITORY}",
    ]


@pytest.mark.parametrize(("requires", "tag"), [(">=3.99", "py3-none-any"), (">=3.8", "cp311-cp311-win_amd64")])
def test_a_package_that_cannot_be_installed_here_counts_as_existing(
    registry: Registry, requires: str, tag: str
) -> None:
    registry.has_on_pypi("steadlock", OTHER_REPOSITORY, requires, tag)
    (answer,) = names.answers(["pypi"])
    assert answer.verdict.startswith("another project's: ")


def test_a_project_without_files_counts_as_existing(registry: Registry) -> None:
    registry.put("/simple/steadlock/", "<!DOCTYPE html><html><body></body></html>")
    (answer,) = names.answers(["pypi"])
    assert answer.verdict == "another project's: its repository is not known"


def test_a_registry_that_does_not_answer_stops_the_release(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch)
    registry.files.clear()
    registry.otherwise = 503
    verdicts = {answer.registry: answer.verdict for answer in names.answers()}
    assert len(verdicts) == 4
    assert all(verdict.startswith("the registry gave no answer: ") for verdict in verdicts.values()), verdicts


def test_a_client_that_is_missing_stops_the_release(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert {names.verdict(names.npmjs, "steadlock"), names.verdict(names.crates_io, "steadlock")} == {
        "the registry gave no answer: npm is not installed",
        "the registry gave no answer: cargo is not installed",
    }


def test_nothing_is_published_under_a_name_that_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "verdict", lambda lookup, name: "another project's: somewhere")
    published: list[str] = []
    monkeypatch.setattr(release, "steps_of", published.append)
    for registry in ("npm", "crates", "maven"):
        with pytest.raises(SystemExit, match="another project's"):
            release.publish(registry, is_rehearsal=False)
    assert published == []
    row = next(release.rehearsal(with_cargo=False))
    assert re.match(r"steadlock: another project's", row.wrong)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (OUR_REPOSITORY, True),
        (f"{OUR_REPOSITORY}/", True),
        (f"{OUR_REPOSITORY}-fork", False),
        ("https://github.com/steadlock/other", False),
        ("", False),
    ],
)
def test_a_repository_is_ours_in_any_form_of_its_url(url: str, expected: bool) -> None:
    assert names.is_ours(url) is expected
