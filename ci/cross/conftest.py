"""Several languages on one lock, on a real redis-server. The programs that contend are in contenders/."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from programs import Server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A redis-server of its own, on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder: Path = tmp_path_factory.mktemp("redis")
    command = ["redis-server", "--port", str(port), "--save", "", "--appendonly", "no", "--dir", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ | {"LC_ALL": "C"})
    store = redis.Redis(port=port, decode_responses=True)
    try:
        deadline = time.monotonic() + 10
        while True:
            try:
                store.ping()
                break
            except redis.ConnectionError:
                assert time.monotonic() < deadline, "redis-server did not start"
                time.sleep(0.02)
        yield Server(f"redis://127.0.0.1:{port}", store)
    finally:
        store.close()
        process.terminate()
        process.wait()
