"""The options of a client, and the core's client that is made from them."""

from __future__ import annotations

import os.path
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from os import PathLike, fspath
from typing import TypeAlias

from steadlock import _log, _native
from steadlock._context import refuse_eventlet, start_thread
from steadlock._settings import Duration, OnUnavailable, checked_policy, flag, milliseconds, optional_milliseconds
from steadlock._shown import is_unicode, type_of
from steadlock.errors import InvalidArgumentError

TlsFiles: TypeAlias = tuple[str | PathLike[str] | None, str | PathLike[str] | None, str | PathLike[str] | None]
"""The files of the trusted authorities, of the certificate and of its key."""

AddressMap: TypeAlias = Mapping[str, str] | Callable[[str], str | None]
"""Maps addresses that servers announce to addresses that the program can reach."""

Outages: TypeAlias = tuple[OnUnavailable | None, int | None, Duration | None]
"""How an acquisition ends in an outage, how many failures open a circuit breaker, and the time between its probes."""

Counted: TypeAlias = tuple[bool, int | None, Iterable[str] | None]
"""Whether metrics are counted, the maximum number of groups, and the fair locks whose queues are counted."""

Introduction: TypeAlias = tuple[bool, str | None]
"""Whether the client tells the servers which program it is, and its label."""


def open_native(
    url: str | None,
    primaries: list[str] | None,
    lease: Duration | None,
    command_timeout: Duration | None,
    connect_timeout: Duration | None,
    retry_interval: tuple[Duration, Duration] | None,
    key_prefix: str | None,
    files: TlsFiles,
    tls_server_name: str | None,
    address_map: AddressMap | None,
    lazy: bool,
    outages: Outages,
    counted: Counted,
    introduction: Introduction,
) -> _native.Client:
    """Makes the core's client, which starts to connect to one server or to several primaries."""
    refuse_eventlet("connect")
    ca, cert, key = files
    table, function = _addresses(address_map)
    on_unavailable, failures, pause = outages
    metrics, groups, queues = counted
    is_introduced, label = introduction
    return _native.Client(
        url=_text(url, "the URL"),
        primaries=primaries,
        lease_ms=optional_milliseconds(lease),
        command_timeout_ms=optional_milliseconds(command_timeout),
        connect_timeout_ms=optional_milliseconds(connect_timeout),
        retry_interval_ms=_retry_bounds(retry_interval),
        key_prefix=_text(key_prefix, "key_prefix"),
        tls_ca_file=_path(ca, "tls_ca_file"),
        tls_cert_file=_path(cert, "tls_cert_file"),
        tls_key_file=_path(key, "tls_key_file"),
        tls_server_name=_text(tls_server_name, "tls_server_name"),
        address_map=table,
        address_function=function,
        lazy=flag(lazy, "lazy"),
        breaker_failures=_failures(failures),
        breaker_pause_ms=optional_milliseconds(pause),
        on_unavailable=checked_policy(on_unavailable, "connect"),
        log=_log.wanted_level(),
        metrics=flag(metrics, "metrics"),
        metrics_groups=_groups(groups),
        metrics_queues=_queues(queues),
        client_info=flag(is_introduced, "client_info"),
        client_label=_text(label, "client_label"),
        program=_program(),
        language=f"python {sys.version.partition(' ')[0]}",
    )


def url_list(urls: Iterable[str]) -> list[str]:
    """Returns the URLs as a list. Refuses a single text; the core checks all other rules."""
    if isinstance(urls, str | bytes | bytearray | Mapping) or not isinstance(urls, Iterable):
        raise TypeError(f"the URLs of several primaries are a list of str, not a {type_of(urls)}")
    return [_required_text(url, f"URL {position} of the primaries") for position, url in enumerate(urls, 1)]


def _retry_bounds(interval: tuple[Duration, Duration] | None) -> tuple[float, float] | None:
    """Returns the bounds in milliseconds, if they are given."""
    if interval is None:
        return None
    if not isinstance(interval, tuple | list) or len(interval) != 2:
        raise TypeError(f"retry_interval is two durations, the shortest and the longest, not a {type_of(interval)}")
    return milliseconds(interval[0]), milliseconds(interval[1])


def _addresses(
    given: AddressMap | None,
) -> tuple[dict[str, str] | None, Callable[[str, _native.Answer], None] | None]:
    """Returns the table, or a function that calls the program's function; `None` for what is not given."""
    if isinstance(given, Mapping):
        return {_address(key): _address(value) for key, value in given.items()}, None
    if given is not None and not callable(given):
        raise TypeError(f"address_map is a dict of str or a function, not a {type_of(given)}")
    return None, None if given is None else partial(start_thread, _ask, given)


def _ask(function: Callable[[str], object], announced: str, answer: _native.Answer) -> None:
    """Calls the function of an address map, in a thread that is made for it."""
    try:
        said = function(announced)
    except BaseException as raised:
        # The message of the error could contain a secret, so only its type is shown.
        answer(None, f"it raised {type(raised).__name__}")
    else:
        if said is None or (isinstance(said, str) and is_unicode(said)):
            answer(said, None)
        else:
            answer(None, "it gave neither a str nor None")


def _address(value: str) -> str:
    return _required_text(value, "an address of address_map")


def _groups(most: int | None) -> int | None:
    """Returns the number of groups, if it is given. The core checks its range."""
    # Bounds the number, because large integers lose their exact value as a float. The bounds are out of range too.
    return None if most is None else max(-1, min(_integer(most, "metrics_groups"), 2**31))


def _queues(names: Iterable[str] | None) -> list[str] | None:
    """Returns the names of fair locks as a list. Refuses a single text; the core checks all other rules."""
    if names is None:
        return None
    if isinstance(names, str | bytes | bytearray | Mapping) or not isinstance(names, Iterable):
        raise TypeError(f"metrics_queues is a list of names, not a {type_of(names)}")
    return [_required_text(name, "a name of metrics_queues") for name in names]


def _program() -> str | None:
    """Returns the name of the script, or of the package that runs as a script, without arguments; `None` if there is
    none.
    """
    # Programs can set `sys.argv` to anything, or remove it.
    arguments: object = getattr(sys, "argv", None)
    first: object = arguments[0] if isinstance(arguments, list) and arguments else None
    if not isinstance(first, str):
        return None
    folder, name = os.path.split(os.path.normpath(first))
    if name == "__main__.py":
        name = os.path.basename(folder)
    return name if name not in ("", ".", "-", "-c", "-m") and is_unicode(name) else None


def _failures(number: int | None) -> int | None:
    """Returns the number of failures that open a circuit breaker, if it is given. The core checks its range."""
    # Bounds the number to what the core's type can hold. The bounds are out of range too.
    return None if number is None else max(0, min(_integer(number, "breaker_failures"), 2**31))


def _integer(value: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} is an int, not a {type_of(value)}")
    return value


def _text(value: str | None, what: str) -> str | None:
    """Returns the text of an option, if it is given. The core checks all other rules."""
    return None if value is None else _required_text(value, what)


def _path(value: str | PathLike[str] | None, what: str) -> str | None:
    """Returns the path of an option, if it is given."""
    if value is not None and not isinstance(value, str | PathLike):
        raise TypeError(f"{what} is a str or a path, not a {type_of(value)}")
    return None if value is None else _required_text(fspath(value), what)


def _required_text(value: str, what: str) -> str:
    """Returns the text. Refuses text that UTF-8 cannot express."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is a str, not a {type_of(value)}")
    if not is_unicode(value):
        raise InvalidArgumentError(
            f"connect: {what} is not valid Unicode; leave lone surrogates out", operation="connect"
        )
    return value
