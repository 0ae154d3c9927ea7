"""What every language's locks do, on every transport. `LEASEHOLD_BEHAVIOUR` picks transports."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from behaviour import run_in_tasks, run_in_threads, scenarios
from servers import RedisServer, development_server

TRANSPORTS = os.environ.get("LEASEHOLD_BEHAVIOUR", "memory,serve,redis").split(",")
PAIRS = [pytest.param(scenario, kind, id=f"{kind}: {scenario['name']}") for scenario, kind in scenarios()]


@pytest.fixture(scope="session", params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """The transport's name, and a URL of it."""
    name: str = request.param
    with contextlib.ExitStack() as stack:
        match name:
            case "memory":
                url = f"memory://{uuid.uuid4()}"
            case "serve":
                url = stack.enter_context(development_server())
            case "redis":
                url = stack.enter_context(RedisServer()).url
            case _:
                pytest.fail(f"LEASEHOLD_BEHAVIOUR names {name!r}; it knows memory, serve and redis")
        yield name, url


@pytest.fixture
def url(transport: tuple[str, str], record_property: Any) -> str:
    name, url = transport
    # For the count at the end; see conftest.py.
    record_property("transport", name)
    return url


@pytest.mark.parametrize(("scenario", "kind"), PAIRS)
def test_in_threads(url: str, scenario: dict[str, Any], kind: str) -> None:
    run_in_threads(url, scenario, kind)


@pytest.mark.parametrize(("scenario", "kind"), PAIRS)
def test_in_tasks(url: str, scenario: dict[str, Any], kind: str) -> None:
    run_in_tasks(url, scenario, kind)
