"""Shows the log of a program during two failovers. Starts its own redis-server; takes about 10 s."""

import contextlib
import logging
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import steadlock

PASSWORD = "sesame"
LEASE = 3.0


class Server:
    """A redis-server without data, which can be killed and started again."""

    def __init__(self, folder: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        program = shutil.which("redis-server") or sys.exit("redis-server is not installed")
        command = [program, "--port", str(self.port), "--save", "", "--dir", self._folder, "--requirepass", PASSWORD]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.01)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def running() -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder)
        server.start()
        try:
            yield server
        finally:
            server.kill()


def fail_over_twice(server: Server) -> None:
    url = f"redis://:{PASSWORD}@127.0.0.1:{server.port}"
    with steadlock.connect(url, lease=LEASE) as client:
        # The first lease is renewed until it is released. The second one is fixed and not renewed.
        order = client.lock("order:17").try_acquire()
        report = client.lock("report", lease=2).try_acquire()
        assert order is not None
        assert report is not None
        time.sleep(0.2)

        # In the first failover, the new primary has no data of the old one.
        server.kill()
        time.sleep(0.3)
        server.start()
        assert order.lost.wait(10)
        assert report.lost.wait(10)

        # The second failover takes longer than a lease.
        stock = client.lock("stock:42").try_acquire()
        assert stock is not None
        server.kill()
        assert stock.lost.wait(10)
        stock.release()
        server.start()
        with client.lock("stock:42").hold(wait=10):
            time.sleep(0.5)


def main() -> None:
    logging.basicConfig(
        stream=sys.stdout,
        level=logging.INFO,
        format="%(asctime)s.%(msecs)03d %(levelname)-7s %(message)s",
        datefmt="%H:%M:%S",
    )
    with running() as server:
        fail_over_twice(server)


if __name__ == "__main__":
    main()
