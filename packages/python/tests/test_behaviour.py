"""The scenarios that all languages share, on each transport. `STEADLOCK_BEHAVIOUR` chooses transports;
`STEADLOCK_BEHAVIOUR_URLS` names running servers, on which each kind runs one scenario.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from behaviour import one_of_each_kind, run_in_tasks, run_in_threads, scenarios
from servers import RedisServer, development_server

# A URL contains no space, so the list can be split at spaces.
URLS = os.environ.get("STEADLOCK_BEHAVIOUR_URLS", "").split()
TRANSPORTS = ["urls"] if URLS else os.environ.get("STEADLOCK_BEHAVIOUR", "memory,serve,redis").split(",")
PLAYED = one_of_each_kind(len(URLS)) if URLS else scenarios()
PAIRS = [pytest.param(scenario, kind, id=f"{kind}: {scenario['name']}") for scenario, kind in PLAYED]


@pytest.fixture(scope="session", params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> Iterator[tuple[str, list[str]]]:
    """Yields the name of the transport, and the URLs of its three servers."""
    name: str = request.param
    with contextlib.ExitStack() as stack:
        match name:
            case "memory":
                urls = [f"memory://{uuid.uuid4()}" for _ in range(3)]
            case "serve":
                urls = [stack.enter_context(development_server()) for _ in range(3)]
            case "redis":
                urls = [stack.enter_context(RedisServer()).url for _ in range(3)]
            case "urls":
                urls = URLS
            case _:
                pytest.fail(f"STEADLOCK_BEHAVIOUR has {name!r}, which is not memory, serve or redis")
        yield name, urls


@pytest.fixture
def urls(transport: tuple[str, list[str]], record_property: Any) -> list[str]:
    name, urls = transport
    # conftest.py prints the counts at the end.
    record_property("transport", name)
    return urls


@pytest.mark.parametrize(("scenario", "kind"), PAIRS)
def test_in_threads(urls: list[str], scenario: dict[str, Any], kind: str) -> None:
    run_in_threads(urls, scenario, kind)


@pytest.mark.parametrize(("scenario", "kind"), PAIRS)
def test_in_tasks(urls: list[str], scenario: dict[str, Any], kind: str) -> None:
    run_in_tasks(urls, scenario, kind)
