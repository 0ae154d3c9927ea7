"""Tests of a client's `repr`: its server, without the password, and its state."""

from __future__ import annotations

from servers import RedisServer

import steadlock
from steadlock import aio

PASSWORD = "sesame-open-and-more"


def test_the_repr_of_a_client_names_its_server_and_state(server: RedisServer) -> None:
    url = f"redis://127.0.0.1:{server.port}"
    client = steadlock.connect(url)
    assert repr(client) == f"<steadlock.Client of 127.0.0.1:{server.port}, open>"
    client.close()
    assert repr(client) == f"<steadlock.Client of 127.0.0.1:{server.port}, closed>"


def test_the_repr_of_a_lazy_client_says_not_connected_yet() -> None:
    with steadlock.connect("memory://shown", lazy=True) as client:
        assert repr(client) == "<steadlock.Client of memory://shown, not connected yet>"
        client.lock("door").locked()
        assert repr(client) == "<steadlock.Client of memory://shown, open>"


async def test_the_repr_of_an_aio_client_names_its_server_and_state() -> None:
    lazy = aio.connect("memory://shown", lazy=True)
    assert repr(lazy) == "<steadlock.aio.LazyClient of memory://shown, not connected yet>"
    async with aio.connect("memory://shown") as client:
        assert repr(client) == "<steadlock.aio.Client of memory://shown, open>"
    assert repr(client) == "<steadlock.aio.Client of memory://shown, closed>"


def test_a_password_is_never_shown() -> None:
    for scheme in ("redis", "rediss", "redis+cluster"):
        client = steadlock.connect(f"{scheme}://me:{PASSWORD}@127.0.0.1:1", lazy=True)
        assert "127.0.0.1:1" in repr(client)
        assert PASSWORD not in repr(client)
        assert "me" not in repr(client).partition(" of ")[2]
        client.close()
    urls = [f"redis://:{PASSWORD}@h{number}:1" for number in range(3)]
    client = steadlock.redlock(urls, lazy=True)
    assert repr(client) == "<steadlock.Client of h0:1, h1:1, h2:1, not connected yet>"
    client.close()


def test_the_repr_of_a_sentinel_client_names_the_sentinels() -> None:
    client = steadlock.connect(f"redis+sentinel://:{PASSWORD}@a:1,b:2/main", lazy=True)
    assert repr(client) == "<steadlock.Client of sentinels a:1,b:2 of main, not connected yet>"
    client.close()
