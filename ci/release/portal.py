"""Publishes to Maven Central: signs the files of dist/maven, packs them into a bundle and uploads it to the Portal.

https://central.sonatype.org/publish/publish-portal-api/
"""

import base64
import hashlib
import json
import os
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from registries import get

API = "https://central.sonatype.com/api/v1/publisher"
PUBLIC = "https://repo1.maven.org/maven2"
CURL = ("curl", "--silent", "--show-error", "--fail-with-body", "--config", "-", "--request", "POST")
#: The suffixes of signatures and checksums, which are made anew for each file.
DERIVED = {".asc", ".md5", ".sha1", ".sha256", ".sha512"}
SECONDS_BETWEEN, MOST_POLLS = 10.0, 180

Sign = Callable[[Path], bytes]


def is_published(version: str) -> bool:
    """Whether the version is published. One file proves it, because a bundle is published as a whole or not at all."""
    return get(f"{PUBLIC}/io/github/steadlock/steadlock/{version}/steadlock-{version}.pom") is not None


def publish(repository: Path, version: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / f"steadlock-{version}-bundle.zip"
        with Signer() as sign:
            bundle(repository, target, sign)
        upload(target, f"steadlock {version}")


def bundle(repository: Path, target: Path, sign: Sign) -> list[str]:
    """Packs each file with its signature and checksums, in the layout of a Maven repository. Returns all names."""
    sources = sorted(
        file for file in (repository / "io").rglob("*") if file.is_file() and file.suffix not in DERIVED | {".xml"}
    )
    if not sources:
        raise SystemExit(f"release: {repository} has no components")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sources:
            name, content = file.relative_to(repository).as_posix(), file.read_bytes()
            archive.writestr(name, content)
            archive.writestr(f"{name}.asc", sign(file))
            archive.writestr(f"{name}.md5", hashlib.md5(content).hexdigest())
            archive.writestr(f"{name}.sha1", hashlib.sha1(content).hexdigest())
        return archive.namelist()


class Signer:
    """Signs files with the key in MAVEN_SIGNING_KEY. Its keyring is removed at the end of the context."""

    def __enter__(self) -> Sign:
        self.folder = tempfile.TemporaryDirectory()
        self.gpg("--import", answer=secret("MAVEN_SIGNING_KEY").encode())
        return self.sign

    def __exit__(self, *_: object) -> None:
        subprocess.run(["gpgconf", "--homedir", self.folder.name, "--kill", "all"], check=False)
        self.folder.cleanup()

    def sign(self, file: Path) -> bytes:
        passphrase = os.environ.get("MAVEN_SIGNING_PASSPHRASE", "").encode()
        options = ["--pinentry-mode", "loopback", "--passphrase-fd", "0", "--armor", "--output", "-"]
        return self.gpg(*options, "--detach-sign", str(file), answer=passphrase)

    def gpg(self, *options: str, answer: bytes) -> bytes:
        command = ["gpg", "--homedir", self.folder.name, "--batch", "--quiet", *options]
        done = subprocess.run(command, input=answer, capture_output=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"release: gpg failed:\n{done.stderr.decode()}")
        return done.stdout


def upload(file: Path, name: str) -> None:
    """Uploads a bundle, and returns once the Portal has accepted and is publishing it."""
    address = f"upload?publishingType=AUTOMATIC&name={name.replace(' ', '%20')}"
    deployment = post(address, "--form", f"bundle=@{file};type=application/octet-stream").strip()
    print(f"Maven Central: deployment {deployment}", flush=True)
    wait(deployment)


def wait(deployment: str) -> None:
    for _ in range(MOST_POLLS):
        status: dict[str, Any] = json.loads(post(f"status?id={deployment}"))
        state = status["deploymentState"]
        if state in ("PUBLISHING", "PUBLISHED"):
            print(f"Maven Central: {state}", flush=True)
            return
        if state == "FAILED":
            reasons = json.dumps(status.get("errors"), indent=2)
            raise SystemExit(f"release: Maven Central refused {deployment}:\n{reasons}")
        time.sleep(SECONDS_BETWEEN)
    raise SystemExit(f"release: Maven Central still checks {deployment}: see https://central.sonatype.com/publishing")


def post(address: str, *options: str) -> str:
    """Sends a POST request and returns the reply. curl reads the token from stdin, as process lists show arguments."""
    user = f"{secret('MAVEN_CENTRAL_USERNAME')}:{secret('MAVEN_CENTRAL_PASSWORD')}"
    token = base64.b64encode(user.encode()).decode()
    done = subprocess.run(
        [*CURL, *options, f"{API}/{address}"],
        input=f'header = "Authorization: Bearer {token}"\n',
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"release: Maven Central refused the request: {done.stderr}{done.stdout}")
    return done.stdout


def secret(name: str) -> str:
    if not (value := os.environ.get(name)):
        raise SystemExit(f"release: {name} is not set")
    return value
