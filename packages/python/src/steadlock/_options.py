"""The options of a client: their types, how they are checked, and the core's client made of them."""

from __future__ import annotations

import inspect
import os.path
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from os import PathLike, fspath
from typing import Any, Final, ParamSpec, TypeAlias, TypedDict, TypeVar

from steadlock import _log, _native
from steadlock._context import refuse_eventlet, start_thread
from steadlock._settings import Duration, OnUnavailable, checked_policy, flag, milliseconds
from steadlock._shown import is_unicode, type_of
from steadlock.errors import InvalidArgumentError

P = ParamSpec("P")
R = TypeVar("R")

AddressMap: TypeAlias = Mapping[str, str] | Callable[[str], str | None]
"""Maps addresses that servers announce to addresses that the program can reach."""


class ClientOptions(TypedDict, total=False):
    """The keyword arguments of `connect` and `redlock`, but for `lazy`. Where `None` is allowed it is the default.

    `lease` is the length of the leases of locks that set none (30 s). The client renews such a lease each time a third
    of it has passed. A lock outlives its holder's process by at most one `lease`. `command_timeout` bounds the wait for
    a reply (3 s), `connect_timeout` the time for connecting (5 s). A waiter polls at random intervals between the two
    durations of `retry_interval` (0.5 s, 0.75 s). `key_prefix` is a prefix for every lock's name. Durations are seconds
    or `timedelta`.

    For `rediss://`, `tls_ca_file` is a PEM file of the authorities to trust instead of the system's. For a server that
    demands a client certificate, `tls_cert_file` is the PEM file of yours, and `tls_key_file` that of its private key,
    which must not be encrypted. The client reads the files again for later connections, so they can be replaced while
    the program runs. `tls_server_name` is the name that the certificates of all servers must have, instead of the host
    of the connection: for nodes and sentinels that announce IP addresses.

    `address_map` maps the addresses that cluster nodes and sentinels announce to addresses that the program can reach,
    for example behind NAT or from outside a Kubernetes cluster: `{"10.0.0.1:6379": "localhost:7001"}`. Give a port on
    both sides or on neither, and write an IPv6 address in brackets. `address_map` can also be a function that gets the
    announced `host:port` and returns the one to use, or `None` for the announced one. The client calls the function
    before each connection to an announced address, on a thread of its own, so the function may block; if it raises,
    that attempt to connect fails. Addresses of the URL are not mapped.

    With circuit breakers, one for each primary, an acquisition is not attempted while its primary is known not to
    answer. `on_unavailable` sets how it ends then:

    - `"fail"` (default): it raises `UnavailableError` at once
    - `"local"`: the client grants a degraded lease, which excludes only other callers of this client and has no token;
      see `Lease.degraded`. For `lock`, `mutex`, `fair_lock` and composite locks of these; acquisitions of other kinds
      fail
    - `"skip"`: the lock is not granted. `try_acquire` returns `None`, and `acquire` returns `False` if its wait has a
      bound. A call that cannot return without a lease, such as `with`, raises `UnavailableError` with `skipped`, and no
      body runs. A `synchronized` function returns `None` and does not run

    A lock can override the setting. `breaker_failures` is how many failures in a row open the breaker (5; 1 to
    1,000,000). These count as failures: calls without a reply in time, lost and refused connections, and errors by
    which a server reports that it cannot serve. `breaker_pause` is the time between two probes while the breaker is
    open (10 s); a reply that is no failure closes the breaker. Each of `on_unavailable`, `breaker_failures` and
    `breaker_pause` switches the breakers on; by default there are none.

    With `metrics` the client counts acquisitions, waits, holds, renewals, losses and reconnects, for `Client.metrics`.
    Locks are counted by group, never by name; the group is the part of the name before the first `:`, or `none` without
    a `:`. `metrics_groups` is the maximum number of groups (100; 1 to 10,000); further groups count as `other`.
    `metrics_queues` names fair locks, up to 100, whose wait queues on the server are counted every 15 s; not for
    `redlock`.

    The client tells its servers which program on which machine it is, and reads the same of other clients, so that
    `Holder.client`, `LockTimeoutError` and the tools can name programs: host, process id, program, Python's version,
    Steadlock's version, start time. For each server, this costs one call at the first use, one every 30 s while the
    client is in use, and one every 60 s for each other client that was found to hold a lock. The server keeps the
    information for 90 s; anybody who may read the server's keys can read it. `client_label` adds a label of up to 200
    characters on one line; `client_info=False` switches all of this off.
    """

    lease: Duration | None
    command_timeout: Duration | None
    connect_timeout: Duration | None
    retry_interval: tuple[Duration, Duration] | None
    key_prefix: str | None
    tls_ca_file: str | PathLike[str] | None
    tls_cert_file: str | PathLike[str] | None
    tls_key_file: str | PathLike[str] | None
    tls_server_name: str | None
    address_map: AddressMap | None
    on_unavailable: OnUnavailable | None
    breaker_failures: int | None
    breaker_pause: Duration | None
    metrics: bool
    metrics_groups: int | None
    metrics_queues: Iterable[str] | None
    client_info: bool
    client_label: str | None


def with_options(function: Callable[P, R]) -> Callable[P, R]:
    """Lists the options in the signature of a function that takes them as `**options`, for `help` and other tools.
    Writes their documentation in place of the sentence that refers to it, if there is one.
    """
    signature = inspect.signature(function)
    named = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    options = [
        # The annotation is a text, as all annotations are after `from __future__ import annotations`.
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=_FLAGS.get(name), annotation=annotation.__forward_arg__
        )
        for name, annotation in inspect.get_annotations(ClientOptions).items()
    ]
    function.__signature__ = signature.replace(parameters=named + options)  # type: ignore[attr-defined]
    documentation, own = inspect.getdoc(ClientOptions), inspect.getdoc(function)
    # Without docstrings (`python -OO`) there is nothing to write.
    if documentation and own:
        function.__doc__ = own.replace(_REFERENCE, documentation.partition("\n\n")[2])
    return function


_REFERENCE: Final = "`ClientOptions` documents the other options."
"""The sentence that stands for the documentation of all options."""


def refuse_others(function: str, options: ClientOptions) -> None:
    """Raises what Python raises for a keyword argument that a function does not have."""
    for name in options:
        if name not in ClientOptions.__optional_keys__:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def open_native(
    url: str | None,
    primaries: list[str] | None,
    lazy: bool,
    options: ClientOptions,
) -> _native.Client:
    """Makes the core's client of one server or of several primaries. The client connects at once, unless `lazy`."""
    refuse_eventlet("connect")
    given: dict[str, Any] = {
        "url": _text(url, "the URL"),
        "primaries": primaries,
        "lazy": flag(lazy, "lazy"),
        "log": _log.wanted_level(),
        "program": _program(),
        "language": f"python {sys.version.partition(' ')[0]}",
    }
    for name, value in options.items():
        if name in _CHECKS and (value is not None or name in _FLAGS):
            check = _CHECKS[name]
            core_name = f"{name}_ms" if check in (_milliseconds, _retry_bounds) else name
            given[core_name] = check(value, name)
    given["address_map"], function = _addresses(options.get("address_map"))
    return _native.Client({name: value for name, value in given.items() if value is not None}, function)


def url_list(urls: Iterable[str]) -> list[str]:
    """Returns the URLs as a list. Refuses a single text; the core checks all other rules."""
    if isinstance(urls, str | bytes | bytearray | Mapping) or not isinstance(urls, Iterable):
        raise TypeError(f"the URLs of several primaries are a list of str, not a {type_of(urls)}")
    return [_required_text(url, f"URL {position} of the primaries") for position, url in enumerate(urls, 1)]


def _milliseconds(value: Any, what: str) -> float:
    return milliseconds(value)


def _retry_bounds(value: Any, what: str) -> tuple[float, float]:
    """Returns the bounds in milliseconds."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise TypeError(f"{what} is two durations, the shortest and the longest, not a {type_of(value)}")
    return milliseconds(value[0]), milliseconds(value[1])


def _addresses(
    given: AddressMap | None,
) -> tuple[dict[str, str] | None, Callable[[str, _native.Answer], None] | None]:
    """Returns the table, and a function that starts a call of the program's function. Each is `None` if it is not
    given.
    """
    if isinstance(given, Mapping):
        return {_address(key): _address(value) for key, value in given.items()}, None
    if given is not None and not callable(given):
        raise TypeError(f"address_map is a dict of str or a function, not a {type_of(given)}")
    return None, None if given is None else partial(start_thread, _ask, given)


def _ask(function: Callable[[str], object], announced: str, answer: _native.Answer) -> None:
    """Calls the function of an address map, in a thread that is made for the call."""
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


def _names(value: Any, what: str) -> list[str]:
    """Returns the names of locks as a list. Refuses a single text; the core checks all other rules."""
    if isinstance(value, str | bytes | bytearray | Mapping) or not isinstance(value, Iterable):
        raise TypeError(f"{what} is a list of names, not a {type_of(value)}")
    return [_required_text(name, f"a name of {what}") for name in value]


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


def _integer(value: Any, what: str) -> float:
    """Returns the number. The core checks its range."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} is an int, not a {type_of(value)}")
    # A float cannot hold every int. The core refuses both bounds, so a number beyond them is refused too.
    return float(max(-1, min(value, 2**31)))


def _policy(value: Any, what: str) -> str | None:
    return checked_policy(value, "connect")


def _text(value: str | None, what: str) -> str | None:
    """Returns the text of an option, if it is given. The core checks all other rules."""
    return None if value is None else _required_text(value, what)


def _path(value: Any, what: str) -> str:
    if not isinstance(value, str | PathLike):
        raise TypeError(f"{what} is a str or a path, not a {type_of(value)}")
    return _required_text(fspath(value), what)


def _required_text(value: Any, what: str) -> str:
    """Returns the text. Refuses text that UTF-8 cannot express."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is a str, not a {type_of(value)}")
    if not is_unicode(value):
        raise InvalidArgumentError(
            f"connect: {what} is not valid Unicode; leave lone surrogates out", operation="connect"
        )
    return value


_CHECKS: Final[Mapping[str, Callable[[Any, str], object]]] = {
    "lease": _milliseconds,
    "command_timeout": _milliseconds,
    "connect_timeout": _milliseconds,
    "retry_interval": _retry_bounds,
    "key_prefix": _required_text,
    "tls_ca_file": _path,
    "tls_cert_file": _path,
    "tls_key_file": _path,
    "tls_server_name": _required_text,
    "on_unavailable": _policy,
    "breaker_failures": _integer,
    "breaker_pause": _milliseconds,
    "metrics": flag,
    "metrics_groups": _integer,
    "metrics_queues": _names,
    "client_info": flag,
    "client_label": _required_text,
}
"""The check and conversion of each option, except `address_map`. An option that is missing here never reaches the core.
"""

_FLAGS: Final[Mapping[str, bool]] = {"metrics": False, "client_info": True}
"""The options that are either true or false, with their defaults."""
