"""Tests of `rediss://` with client certificates. `core/client/tests/tls.rs` tests the message of each refusal."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from servers import RedisServer, free_port

import steadlock
from steadlock import aio

MAKE = Path(__file__).parents[3] / "ci" / "support" / "certificates.sh"


@dataclass
class Secure:
    url: str
    folder: Path

    def file(self, name: str) -> Path:
        return self.folder / name


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    """A server that requires client certificates."""
    folder = tmp_path_factory.mktemp("certificates")
    subprocess.run([MAKE, folder], check=True)
    port = free_port()
    options = ["--tls-port", str(port), "--tls-auth-clients", "yes"]
    for option, file in (("cert", "server.pem"), ("key", "server.key"), ("ca-cert", "ca.pem")):
        options += [f"--tls-{option}-file", str(folder / file)]
    with RedisServer(*options):
        yield Secure(f"rediss://localhost:{port}", folder)


def test_a_client_with_a_certificate_connects(secure: Secure) -> None:
    with (
        steadlock.connect(
            secure.url,
            tls_ca_file=secure.file("ca.pem"),
            tls_cert_file=str(secure.file("client.pem")),
            tls_key_file=secure.file("client.key"),
        ) as client,
        client.lock("door") as lease,
    ):
        assert lease.is_valid()


async def test_an_aio_client_with_a_certificate_connects(secure: Secure) -> None:
    async with (
        aio.connect(
            secure.url,
            tls_ca_file=secure.file("ca.pem"),
            tls_cert_file=secure.file("client.pem"),
            tls_key_file=secure.file("client.key"),
        ) as client,
        client.lock("door") as lease,
    ):
        assert lease.is_valid()


async def test_a_client_without_a_certificate_is_misconfigured(secure: Secure) -> None:
    ca = secure.file("ca.pem")
    with pytest.raises(steadlock.MisconfiguredError, match=r"demands a client certificate.*tls_cert_file"):
        steadlock.connect(secure.url, tls_ca_file=ca)
    with pytest.raises(steadlock.MisconfiguredError, match=r"demands a client certificate.*tls_cert_file"):
        await aio.connect(secure.url, tls_ca_file=ca)
    with pytest.raises(steadlock.MisconfiguredError, match="not in tls_ca_file"):
        steadlock.connect(secure.url, tls_ca_file=secure.file("other.pem"))
    with pytest.raises(steadlock.InvalidArgumentError, match="tls_key_file"):
        steadlock.connect(secure.url, tls_ca_file=ca, tls_cert_file=secure.file("client.pem"))


def test_tls_server_name_is_verified(secure: Secure) -> None:
    with pytest.raises(steadlock.MisconfiguredError, match=r"not for cache\.example but for localhost"):
        steadlock.connect(secure.url, tls_ca_file=secure.file("ca.pem"), tls_server_name="cache.example")
    with pytest.raises(steadlock.InvalidArgumentError, match="tls_server_name"):
        steadlock.connect("redis://127.0.0.1:1", tls_server_name="cache.example")
