# The compiled core. Private: use `steadlock` and `steadlock.aio`.
#
# Times are in milliseconds in arguments, and in seconds in results. The operations of `Client` on locks, and `close`,
# exist twice: `name()` blocks without the GIL; `submit_name()` returns a request number, and `drain()` delivers the
# result.

from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Final, Generic, Literal, ParamSpec, Protocol, Self, TypeAlias, TypeVar, final, overload

from steadlock._outcomes import LostReason, Released, RunOutcome, RunState, SkipReason

ERROR_KINDS: Final[list[str]]
LOCK_KINDS: Final[list[str]]
ON_UNAVAILABLE: Final[list[str]]
__version__: Final[str]

# Returns a lock's name as messages show it, without the userinfo of a URL.
def shown(name: str) -> str: ...

# The `LockLostError` that a release raises for a lease that was lost for this reason. `is_forgotten`: see `Lease`.
def lost_error(name: str, reason: LostReason, is_forgotten: bool) -> Exception: ...

# Sets the function that makes exceptions:
# `make(kind, text, cause, lock_name, operation, holder, reason, node, retryable, skipped, skip)` returns the exception
# for an error of the core.
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
            Skip | None,
        ],
        Exception,
    ],
) -> None: ...

# Returns how many seconds a candidate waits before it campaigns again, after this many terms that it lost or could not
# have, one after another.
def campaign_pause(failures: int) -> float: ...

# Called at the end of the interpreter. From now on no thread but the calling one gets a lock. Waits until the waiting
# threads have ended by `SystemExit`, at most `limit_ms`.
def grant_no_more(limit_ms: int) -> None: ...

# Called in the child of a fork, where the parent's other threads do not exist.
def has_forked() -> None: ...

# Called at the end of the interpreter. From now on no function of an address map is called. Waits until no thread is
# about to start such a call, at most `limit_ms`.
def ask_no_more(limit_ms: int) -> None: ...

# Takes the result of an address map's function: the address, `None` for the announced one; or the reason why there is
# no result.
Answer: TypeAlias = Callable[[str | None, str | None], None]

# One grant or re-entry. Every method is fast and makes no server call.
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
    # Whether the lease was lost and needs no release: a fixed lease, or a lease of a closed client.
    @property
    def is_forgotten(self) -> bool: ...
    def is_valid(self) -> bool: ...
    def remaining(self) -> float: ...

# A lock: its kind and its name, for a semaphore also the wanted permits and the limit (`None`: the given value was no
# number); for a composite lock, its members. Operations check the name and the numbers.
LockRef: TypeAlias = (
    tuple[str, str] | tuple[str, str, int | None, int | None] | tuple[Literal["multi_lock"], tuple[LockRef, ...]]
)

_L = TypeVar("_L")

# The leases that were not released yet, by owner and lock (`LockSettings.key`). No other code sees a half-done change.
# A finalizer that runs in the middle of a method can call the methods too.
@final
class Holds(Generic[_L]):
    # Calls `on_left(lease)` for each lease that from now on lives only while the program refers to it, and
    # `on_dropped(number, name, owner_kind, must_warn)` for each lease that is released because nothing refers to it any
    # more.
    def __new__(
        cls, client: Client, on_left: Callable[[_L], None], on_dropped: Callable[[int, str, str, bool], None]
    ) -> Self: ...
    # Adds a lease. Returns whether it swept out the leases that the core has forgotten. It sweeps after 64 + n added
    # leases, where n is the number of leases that the last sweep kept.
    def add(self, lease: _L, native: Lease, key: LockRef, owner: int | None) -> bool: ...
    # Removes a lease by its number. Idempotent.
    def discard(self, number: int, key: LockRef, owner: int | None) -> None: ...
    # Returns the owner's last lease of this lock that is neither released nor forgotten.
    def innermost(self, key: LockRef, owner: int | None) -> _L | None: ...
    def all(self) -> list[_L]: ...
    # Called when owners have ended. Their leases live from now on only while the program refers to them.
    def owners_have_ended(self, owners: list[int | None]) -> None: ...

# An object whose `__exit__` is `ScopeEnd`. An exception of a signal handler cannot prevent the release.
class _Scope(Protocol):
    # The leases whose scopes have not ended.
    @property
    def _entered(self) -> list[Any]: ...
    # Returns the lease whose scope ends. `ScopeEnd` removes the lease from `_entered`, and releases it by its `_leave`,
    # or by its `_abandon` if `_leave` raises.
    def _innermost_scope(self) -> _Scoped | None: ...
    # Returns the exception to raise if there is no scope to end and the body did not raise.
    def _not_entered(self) -> Exception | None: ...

class _Scoped(Protocol):
    # Called first if the body raised. Can be called again.
    def _body_raised(self) -> None: ...
    # Releases. Returns the exception to raise if the body did not raise.
    def _leave(self) -> Exception | None: ...
    # Releases in the background. Can be called again.
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

# An object whose `__aexit__` is `AsyncScopeEnd`. In the client's loop the release begins with the call, even if an
# interrupt occurs.
class _AsyncScope(Protocol):
    # Returns the scope that ends; `_take_out` removes it from the entered scopes. Both can be called again.
    def _innermost_scope(self) -> Any: ...
    def _take_out(self, hold: Any) -> None: ...
    # Returns the coroutine to await if there is no scope to end.
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

# A function that makes a call, and repeats it whenever an interrupt has ended it. Raises the last interrupt when the
# call is done.
@final
class Uninterrupted:
    def __new__(cls, call: Callable[[], object]) -> Self: ...
    def __call__(self, *_given: object) -> None: ...

_P = ParamSpec("_P")

# Calls a function, and repeats the call whenever an interrupt has ended it. Raises the last interrupt when the call is
# done. An interrupt is an exception that a signal handler or another thread raises in the middle of the call.
def uninterrupted(call: Callable[_P, object], *given: _P.args, **named: _P.kwargs) -> None: ...

# An object that makes a call like `uninterrupted` when it is dropped, except at the end of the interpreter.
@final
class AtEnd:
    def __new__(cls, call: Callable[[], object]) -> Self: ...

# The holder of a lock: the owner id, the rest of its lease in seconds, and the information of its client: host, process
# id, program, language, version, start time, label.
Holder: TypeAlias = tuple[str, float | None, Info | None]

# Why a job was not run; when the other run began, in seconds since 1970; and how many seconds it took.
Skip: TypeAlias = tuple[SkipReason, float | None, float | None]

# The information of a client: host, process id, program, language, version, start time, label.
Info: TypeAlias = tuple[str, int, str, str, str, int, str]

# The last runs of a job: the state and the start of the run that began last, and its client; the run that ended last:
# its end, how long it took, its outcome and its client; and when a run last succeeded. Times are in seconds.
LastRun: TypeAlias = tuple[
    RunState,
    float | None,
    Info | None,
    tuple[float, float, RunOutcome, Info | None] | None,
    float | None,
]

# The present term: its number, its start, and its holder; and the candidates in order: owner ids and clients.
Leadership: TypeAlias = tuple[tuple[int, float, Holder] | None, list[tuple[str, Info | None]]]

# The holder of a lock, `None` if it is free; for a semaphore with held permits, their number and the limit; for a job
# that has run, its last runs; for a leader, the leadership.
State: TypeAlias = tuple[Holder | None, tuple[int, int] | None, LastRun | None, Leadership | None]

# `Exception` is a `LockTimeoutError`, or an `UnavailableError` of a skipped lock. It is a result, because only the
# caller knows whether to raise it.
Result: TypeAlias = Lease | Exception | Released | bool | State | None

# A request number from `drain()`, with its result or the exception to raise.
Completed: TypeAlias = tuple[int, Result, Exception | None]

# A request to submit. `number` is set when it was submitted.
class Request(Protocol):
    submit: Callable[..., int] | None
    number: int | None
    @property
    def args(self) -> tuple[Any, ...]: ...

_R = TypeVar("_R", bound=Request)

# A request whose result has come, or `None` if nothing waits for it; and the result or the exception to raise.
Settled: TypeAlias = tuple[_R | None, Result, Exception | None]

# Submits a request once, and stores it under its number. One atomic step: no interrupt can occur in between.
def submit(waiting: dict[int, _R], request: _R) -> None: ...

# Moves all of `completed`, each with its request from `waiting`, to `settled`.
def settle(completed: list[Completed], waiting: dict[int, _R], settled: list[Settled[_R]]) -> None: ...

# A line for the log: its level, its text, and its facts as named fields.
Line: TypeAlias = tuple[str, str, dict[str, str | int]]

# The settings of an acquisition, as in `steadlock._settings`.
class LockSettings(Protocol):
    @property
    def lock(self) -> LockRef: ...
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
    # The terms of a run, only for a job.
    @property
    def run(self) -> tuple[float | None, str | None, float | None, str | None] | None: ...

OptionValue: TypeAlias = bool | float | str | list[str] | tuple[float, float] | dict[str, str]

# A metric: its name, unit, kind and meaning for OpenTelemetry, the bounds of its buckets in seconds, and its number for
# each set of labels; in a histogram, the number of durations.
Metric: TypeAlias = tuple[str, str, str, str, list[float], dict[tuple[tuple[str, str], ...], int]]

# A client of one server, or of several primaries, with its engine thread.
@final
class Client:
    # The number of the request that `__new__` makes: the first connection.
    CONNECT: Final[int]
    # `options` has the core's names, and only options that are given.
    def __new__(
        cls, options: Mapping[str, OptionValue], address_function: Callable[[str, Answer], None] | None
    ) -> Client: ...
    # Returns a descriptor that is readable while `drain()` has events, and a unique number for it. After the program
    # has closed the descriptor, there is a new one. Raises `OSError` if the system has no descriptor left.
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
    # Returns the label of a lock's group in the metrics. For a composite lock, `name` is all names, separated by `, `.
    def metrics_group(self, name: str) -> str: ...
    def ring(self) -> None: ...
    # Returns the server as messages name it, without user and password; all servers if there are several.
    def server(self) -> str: ...
    # Whether the client has begun to connect. A lazy client does so at its first use.
    def is_started(self) -> bool: ...
    # Sets the lowest level of the lines in `drain()`; `None` for no lines.
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
    # Releases a lease in the background. A run of a job has failed then.
    def release_later(self, lease: int) -> None: ...
    # Releases a lease that no caller got, in the background. A run of a job has not begun then.
    def return_grant(self, lease: int) -> None: ...
    # Ends a run of a job. `at_least_ms` replaces that of the request.
    def end_run(self, lease: int, succeeded: bool, at_least_ms: float | None, interruptible: bool) -> Released: ...
    def submit_end_run(self, lease: int, succeeded: bool, at_least_ms: float | None) -> int: ...
    def last_run(self, lock: LockRef, interruptible: bool) -> State: ...
    def submit_last_run(self, lock: LockRef) -> int: ...
    # Ends a term. The candidate with the owner id `to` leads next, if it still waits.
    def resign(self, lease: int, to: str | None, interruptible: bool) -> Released: ...
    def submit_resign(self, lease: int, to: str | None) -> int: ...
    # With `seen`, the number of a term or 0 for "nobody leads", returns as soon as that has changed.
    def leadership(self, lock: LockRef, seen: int | None, interruptible: bool) -> State: ...
    def submit_leadership(self, lock: LockRef, seen: int | None) -> int: ...
    def release_innermost(self, lock: LockRef, context: int, interruptible: bool) -> Released: ...
    def submit_release_innermost(self, lock: LockRef, context: int) -> int: ...
    def extend(self, lease: int, by_ms: float | None, interruptible: bool) -> None: ...
    def submit_extend(self, lease: int, by_ms: float | None) -> int: ...
    def inspect(self, lock: LockRef, interruptible: bool) -> State: ...
    def submit_inspect(self, lock: LockRef) -> int: ...
    def force_release(self, lock: LockRef, interruptible: bool) -> bool: ...
    def submit_force_release(self, lock: LockRef) -> int: ...
    def set_limit(self, lock: LockRef, interruptible: bool) -> bool: ...
    def submit_set_limit(self, lock: LockRef) -> int: ...
    def close(self, interruptible: bool) -> None: ...
    def submit_close(self) -> int: ...
    # Called at the end of the process. Ends all waits for locks and releases leases, without waiting for replies.
    def end_waits(self, leases: list[int]) -> None: ...
    # Does the same as `end_waits`, and waits until no release is owed to the server any more. Without `ends_waits`, the
    # waits of other threads go on, and this call waits only for the releases of `leases`.
    def release_all(self, leases: list[int], timeout_ms: int, ends_waits: bool) -> None: ...
