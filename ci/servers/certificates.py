"""The certificates of one rig, made by ci/support/certificates.sh."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

CI = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Certificates:
    """A folder with an authority and with a server certificate that it signed for 127.0.0.1 and localhost."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> "Certificates":
        folder.mkdir()
        for script, argument in (CI / "install", "openssl"), (CI / "support" / "certificates.sh", str(folder)):
            subprocess.run([str(script), argument], check=True, capture_output=True, text=True)
        return cls(folder)

    @property
    def authority(self) -> Path:
        return self.folder / "ca.pem"

    def listen(self, port: int) -> list[str]:
        """Returns the options of a server that accepts only TLS on this port and asks clients for no certificate."""
        files = {"cert-file": "server.pem", "key-file": "server.key", "ca-cert-file": "ca.pem"}
        options = ["--port", "0", "--tls-port", str(port), "--tls-auth-clients", "no"]
        for option, name in files.items():
            options += [f"--tls-{option}", str(self.folder / name)]
        return options
