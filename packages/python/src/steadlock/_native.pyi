# The compiled core. Private: use `steadlock` and `steadlock.aio`.
#
# Times are milliseconds. Every operation of `Client` comes twice: `name()` blocks
# without the GIL, `submit_name()` gives a request number whose result `drain()` brings.

from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Final, Generic, ParamSpec, Protocol, Self, TypeAlias, TypeVar, final, overload

from steadlock._endings import LostReason, Released

ERROR_KINDS: Final[list[str]]
LOCK_KINDS: Final[list[str]]
ON_UNAVAILABLE: Final[list[str]]
__version__: Final[str]

# A lock's name as messages show it.
def shown(name: str) -> str: ...

# The `LockLostError` that a release raises for a lease that was lost for this reason.
def lost_error(name: str, reason: LostReason, is_forgotten: bool) -> Exception: ...

# From now on `make(kind, text, cause, lock_name, operation, holder, reason, node, retryable, skipped)` gives the
# exception of an error.
def make_errors_by(
    make: Callable[
        [
            str,
            str,
            str | None,
            str | None,
            str,
            Holder | None,
            LostReason | None,
            str | None,
            bool,
            bool,
        ],
        Exception,
    ],
) -> None: ...

# At the interpreter's end: from now on no thread but the calling one gets a lock. Those that wait end by `SystemExit`;
# it waits for them, for so long at the most.
def grant_no_more(limit_ms: int) -> None: ...

# In the child of a fork: the other threads of its parent are not there.
def has_forked() -> None: ...

# At the interpreter's end: from now on no function of an address map is asked. Waits for so long at the most.
def ask_no_more(limit_ms: int) -> None: ...

# What a function of an address map said: an address or `None`, or why there is none.
Answer: TypeAlias = Callable[[str | None, str | None], None]

# One grant or re-entry. Every method is local and cheap.
@final
class Lease:
    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def token(self) -> int | None: ...
    @property
    def degraded(self) -> bool: ...
    @property
    def lost_reason(self) -> LostReason | None: ...
    @property
    def is_released(self) -> bool: ...
    @property
    def is_forgotten(self) -> bool: ...
    def is_valid(self) -> bool: ...
    def remaining(self) -> float: ...

_L = TypeVar("_L")

# The leases that were not released yet, by owner and lock (`LockSettings.key`). Each method is one step, and may be
# called in the midst of any other by what the interpreter runs in between.
@final
class Holds(Generic[_L]):
    # Calls `on_left(lease)` for each that lives from now on only while somebody refers to it, and `on_dropped(number,
    # name, owner_kind, is_valid)` for each that is released since nobody does any more.
    def __new__(
        cls, client: Client, on_left: Callable[[_L], None], on_dropped: Callable[[int, str, str, bool], None]
    ) -> Self: ...
    # Says whether it swept: once as many were added as the last sweep left, and 64 more.
    def add(self, lease: _L, native: Lease, key: str, owner: int | None) -> bool: ...
    # Forgets a lease by its number. Idempotent.
    def discard(self, number: int, key: str, owner: int | None) -> None: ...
    # What the owner took last of this lock.
    def innermost(self, key: str, owner: int | None) -> _L | None: ...
    def all(self) -> list[_L]: ...
    # What they held lives from now on while somebody refers to it.
    def owners_have_ended(self, owners: list[int | None]) -> None: ...

# `__exit__` of something that has these, which an exception of a signal handler cannot keep from releasing.
class _Scope(Protocol):
    # The leases whose scopes were not left.
    @property
    def _entered(self) -> list[Any]: ...
    # Which of them ends: it is taken out, and released by its `_leave`, or if that raises by its `_abandon`.
    def _innermost_scope(self) -> _Scoped | None: ...
    # What is raised if none ends, if the body did not raise.
    def _not_entered(self) -> Exception | None: ...

class _Scoped(Protocol):
    # Gives what is raised, if the body did not raise.
    def _leave(self) -> Exception | None: ...
    # Does not wait, and may be called again.
    def _abandon(self) -> None: ...

@final
class ScopeEnd:
    def __new__(cls) -> Self: ...
    def __call__(
        self,
        scope: _Scope,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    @overload
    def __get__(self, scope: None, owner: type) -> Self: ...
    @overload
    def __get__(
        self, scope: _Scope, owner: type
    ) -> Callable[[type[BaseException] | None, BaseException | None, TracebackType | None], None]: ...

# `__aexit__` of something that has these. The release begins with the call, whatever strikes.
class _AsyncScope(Protocol):
    # The scope that ends, which is taken out of those that were entered. Both may be called again.
    def _innermost_scope(self) -> Any: ...
    def _take_out(self, hold: Any) -> None: ...
    # What is awaited if none ends.
    def _not_entered(self, body_raised: bool) -> Coroutine[Any, Any, None]: ...

@final
class AsyncScopeEnd:
    def __new__(cls) -> Self: ...
    def __call__(
        self,
        scope: _AsyncScope,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> Coroutine[Any, Any, None]: ...
    @overload
    def __get__(self, scope: None, owner: type) -> Self: ...
    @overload
    def __get__(
        self, scope: _AsyncScope, owner: type
    ) -> Callable[
        [type[BaseException] | None, BaseException | None, TracebackType | None], Coroutine[Any, Any, None]
    ]: ...

# A function that is called again while interrupts strike. It raises the last of them when it is done.
@final
class Uninterrupted:
    def __new__(cls, call: Callable[[], object]) -> Self: ...
    def __call__(self, *_given: object) -> None: ...

_P = ParamSpec("_P")

# Calls a function in this way, now.
def uninterrupted(call: Callable[_P, object], *given: _P.args, **named: _P.kwargs) -> None: ...

# Calls a function in this way when this is dropped, unless that is at the end of the interpreter.
@final
class AtEnd:
    def __new__(cls, call: Callable[[], object]) -> Self: ...

# Who holds a lock, for how many seconds, and what its client says of itself: host, process id, program, language,
# version, since when, label.
Holder: TypeAlias = tuple[str, float | None, tuple[str, int, str, str, str, int, str] | None]

# Who holds a lock; a semaphore's permits, held and in all.
State: TypeAlias = tuple[Holder | None, tuple[int, int] | None]

# `Exception` is a `LockTimeoutError`, or an `UnavailableError` of a lock that is skipped: only the caller knows
# whether to raise it.
Result: TypeAlias = Lease | Exception | Released | bool | State | None

# A request that `drain()` brings, with its result or the exception to raise.
Completed: TypeAlias = tuple[int, Result, Exception | None]

# A request to submit, and the waiter for its result.
class Request(Protocol):
    submit: Callable[..., int] | None
    number: int | None
    @property
    def args(self) -> tuple[Any, ...]: ...

_R = TypeVar("_R", bound=Request)

# Whose result has come, if anybody waits for it; the result or the exception to raise.
Settled: TypeAlias = tuple[_R | None, Result, Exception | None]

# Submits a request, once, and files it under its number. One step: nothing strikes between the two.
def submit(waiting: dict[int, _R], request: _R) -> None: ...

# Moves all of `completed`, each with its waiter of `waiting`, to `settled`.
def settle(completed: list[Completed], waiting: dict[int, _R], settled: list[Settled[_R]]) -> None: ...

# Something for the log: its level, its text, and what it says by name.
Line: TypeAlias = tuple[str, str, dict[str, str | int]]

# What a lock asks for, as `steadlock._settings` has it.
class LockSettings(Protocol):
    @property
    def address(self) -> str: ...
    @property
    def wait(self) -> float | None: ...
    @property
    def lease(self) -> float | None: ...
    @property
    def renew(self) -> bool: ...
    @property
    def max_hold(self) -> float | None: ...
    @property
    def fencing(self) -> bool: ...
    @property
    def on_unavailable(self) -> str | None: ...

OptionValue: TypeAlias = bool | float | str | list[str] | tuple[float, float] | dict[str, str]

# A metric: its name, unit, kind and meaning for OpenTelemetry, the bounds of its buckets in seconds, and its number for
# each set of labels; for a histogram, how many times it counted.
Metric: TypeAlias = tuple[str, str, str, str, list[float], dict[tuple[tuple[str, str], ...], int]]

# One connection to one server, or one to each of several primaries, with its engine thread.
@final
class Client:
    CONNECT: Final[int]
    # `options` has the core's names, and only options that are given.
    def __new__(
        cls, options: Mapping[str, OptionValue], address_function: Callable[[str, Answer], None] | None
    ) -> Client: ...
    # A descriptor that is readable while `drain()` has something to give, and a number that no other one has: after
    # the program has closed it there is another one. An `OSError` if none is to be had.
    def fd(self) -> tuple[int, int]: ...
    def drain(
        self,
    ) -> tuple[
        list[Completed],
        list[tuple[int, LostReason]],
        list[Line],
    ]: ...
    def metrics(self) -> str: ...
    def metric_rows(self) -> list[Metric]: ...
    # The label of a lock's group there; of several locks as one, of all names with `, ` between them.
    def metrics_group(self, name: str) -> str: ...
    def ring(self) -> None: ...
    # The server as messages name it, without user and password; of several, all.
    def server(self) -> str: ...
    # Whether it has begun to connect: a lazy one does at its first use.
    def is_started(self) -> bool: ...
    # From which level on `drain()` has lines from now on; none for `None`.
    def set_log(self, level: str | None) -> None: ...
    def cancel(self, request: int) -> None: ...
    def acquire(
        self,
        granted: list[Lease],
        settings: LockSettings,
        context: int | None,
        blocked: list[int],
        interruptible: bool,
    ) -> None: ...
    def submit_acquire(self, settings: LockSettings, context: int | None) -> int: ...
    def release(self, lease: int, interruptible: bool) -> Released: ...
    def submit_release(self, lease: int) -> int: ...
    def release_later(self, lease: int) -> None: ...
    def release_innermost(self, address: str, context: int, interruptible: bool) -> Released: ...
    def submit_release_innermost(self, address: str, context: int) -> int: ...
    def extend(self, lease: int, by_ms: float | None, interruptible: bool) -> None: ...
    def submit_extend(self, lease: int, by_ms: float | None) -> int: ...
    def inspect(self, address: str, interruptible: bool) -> State: ...
    def submit_inspect(self, address: str) -> int: ...
    def force_release(self, address: str, interruptible: bool) -> bool: ...
    def submit_force_release(self, address: str) -> int: ...
    def set_limit(self, address: str, interruptible: bool) -> bool: ...
    def submit_set_limit(self, address: str) -> int: ...
    def close(self, interruptible: bool) -> None: ...
    def submit_close(self) -> int: ...
    # At the end of the process: ends all waits for locks, gives leases back, and waits for no answer.
    def end_waits(self, leases: list[int]) -> None: ...
    # The same, and waits until nothing is owed to the server any more. Without `ends_waits` other threads go on.
    def release_all(self, leases: list[int], timeout_ms: int, ends_waits: bool) -> None: ...
