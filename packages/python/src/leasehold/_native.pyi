# The compiled core. Private: use `leasehold` and `leasehold.aio`.
#
# Times are milliseconds. Every operation of `Client` comes twice: `name()` blocks
# without the GIL, `submit_name()` gives a request number whose result `drain()` brings.

from typing import Final, TypeAlias, final

from leasehold.errors import LeaseholdError, LockTimeoutError

ERROR_KINDS: Final[list[str]]
LOCK_KINDS: Final[list[str]]
__version__: Final[str]

# A lock's name as messages show it.
def shown(name: str) -> str: ...

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
    def lost_reason(self) -> str | None: ...
    @property
    def is_released(self) -> bool: ...
    @property
    def is_forgotten(self) -> bool: ...
    def is_valid(self) -> bool: ...
    def remaining(self) -> float: ...

# Who holds a lock and for how many seconds; a semaphore's permits, held and in all.
State: TypeAlias = tuple[tuple[str, float | None] | None, tuple[int, int] | None]

Result: TypeAlias = Lease | LockTimeoutError | str | bool | State | None

# A request that `drain()` brings, with its result or the exception to raise.
Completed: TypeAlias = tuple[int, Result, LeaseholdError | None]

# One connection to one server, or one to each of several primaries, with its engine thread.
@final
class Client:
    CONNECT: Final[int]
    def __new__(
        cls,
        *,
        url: str | None,
        primaries: list[str] | None,
        lease_ms: float | None,
        command_timeout_ms: float | None,
        connect_timeout_ms: float | None,
        retry_interval_ms: tuple[float, float] | None,
        key_prefix: str | None,
        tls_ca_file: str | None,
        tls_cert_file: str | None,
        tls_key_file: str | None,
        lazy: bool,
    ) -> Client: ...
    @property
    def fd(self) -> int: ...
    def drain(
        self,
    ) -> tuple[
        list[Completed],
        list[tuple[int, str]],
    ]: ...
    def ring(self) -> None: ...
    def cancel(self, request: int) -> None: ...
    def acquire(
        self,
        granted: list[Lease],
        address: str,
        context: int | None,
        wait_ms: float | None,
        lease_ms: float | None,
        renew: bool,
        max_hold_ms: float | None,
        fencing: bool,
        blocked: list[int],
        interruptible: bool,
    ) -> None: ...
    def submit_acquire(
        self,
        address: str,
        context: int | None,
        wait_ms: float | None,
        lease_ms: float | None,
        renew: bool,
        max_hold_ms: float | None,
        fencing: bool,
    ) -> int: ...
    def release(self, lease: int, interruptible: bool) -> str: ...
    def submit_release(self, lease: int) -> int: ...
    def release_later(self, lease: int) -> None: ...
    def release_innermost(self, address: str, context: int, interruptible: bool) -> str: ...
    def submit_release_innermost(self, address: str, context: int) -> int: ...
    def extend(self, lease: int, by_ms: float | None, interruptible: bool) -> None: ...
    def submit_extend(self, lease: int, by_ms: float | None) -> int: ...
    def inspect(self, address: str, interruptible: bool) -> State: ...
    def submit_inspect(self, address: str) -> int: ...
    def force_release(self, address: str, interruptible: bool) -> bool: ...
    def submit_force_release(self, address: str) -> int: ...
    def set_limit(self, address: str, interruptible: bool) -> bool: ...
    def submit_set_limit(self, address: str) -> int: ...
    def close(self) -> None: ...
    def submit_close(self) -> int: ...
    def release_all(self, leases: list[int], timeout_ms: int) -> None: ...
