"""Causes each kind of error in its most likely ways, with a client on a real redis-server.

A case is a function that causes an error and returns it. docs/errors.md has its docstring as the text for the cause.
"""

import contextlib
import functools
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import redis

import steadlock
from redis_server import RedisProcess, free_port, redis_process

Cause = Callable[["World"], steadlock.SteadlockError]


@dataclass
class World:
    """The servers and clients of one case. All of them end with it."""

    closing: contextlib.ExitStack
    addresses: dict[str, str] = field(default_factory=dict)
    """The address on the page for each address of this run."""

    def server(self, *options: str) -> RedisProcess:
        server = self.closing.enter_context(redis_process(*options))
        self.addresses[f"127.0.0.1:{server.port}"] = f"redis-{len(self.addresses) + 1}:6379"
        return server

    def nowhere(self) -> str:
        """Returns a URL at which no server listens."""
        port = free_port()
        self.addresses[f"127.0.0.1:{port}"] = f"redis-{len(self.addresses) + 1}:6379"
        return f"redis://127.0.0.1:{port}"

    def delayed(self, server: RedisProcess, seconds: float) -> str:
        """Returns a URL of the server that delays all data by this time in each direction."""
        listener = self.closing.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = listener.getsockname()[1]
        self.addresses[f"127.0.0.1:{port}"] = self.addresses[f"127.0.0.1:{server.port}"]

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    other = socket.create_connection(("127.0.0.1", server.port))
                    for source, target in ((client, other), (other, client)):
                        threading.Thread(target=pass_on, args=(source, target, seconds), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return f"redis://127.0.0.1:{port}"

    def operator(self, server: RedisProcess) -> redis.Redis:
        operator = redis.Redis(port=server.port, decode_responses=True)
        self.closing.callback(operator.close)
        return operator

    def client(self, server: RedisProcess, **options: object) -> steadlock.Client:
        return self.connect(server.url, **options)

    def connect(self, url: str | list[str], **options: object) -> steadlock.Client:
        connect: Callable[..., steadlock.Client] = steadlock.redlock if isinstance(url, list) else steadlock.connect
        return self.closing.enter_context(connect(url, **{"client_info": False, **options}))

    def held_by_another_thread(self, lock: steadlock.Lock) -> None:
        thread = self.closing.enter_context(ThreadPoolExecutor(1))
        thread.submit(lock.acquire).result()
        self.closing.callback(lambda: thread.submit(lock.release).result())


def pass_on(source: socket.socket, target: socket.socket, seconds: float) -> None:
    """Forwards data from one side to the other after a delay."""
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            time.sleep(seconds)
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def lease_of(
    lock: steadlock.Lock, lease: steadlock.Duration | None = None, max_hold: steadlock.Duration | None = None
) -> steadlock.Lease:
    """Acquires a free lock and returns its lease."""
    acquired = lock.try_acquire(lease=lease, max_hold=max_hold)
    assert acquired
    return acquired


def error_of_waiting(lock: steadlock.Lock | steadlock.Semaphore) -> steadlock.SteadlockError:
    """Returns the error of a wait for the lock. The wait is long enough for a reply on a busy machine."""

    def wait_for_it() -> None:
        with lock.hold(wait=0.5):
            pass

    return raised(wait_for_it)


def raised(call: Callable[[], object]) -> steadlock.SteadlockError:
    """Returns the error that the call raises."""
    try:
        call()
    except steadlock.SteadlockError as error:
        return error
    raise AssertionError("no error was raised")


CASES: dict[str, list[Cause]] = {}


def case(kind: str) -> Callable[[Cause], Cause]:
    """Returns a decorator that makes a function a case of this kind."""

    def add(cause: Cause) -> Cause:
        CASES.setdefault(kind, []).append(cause)
        return cause

    return add


# --- Skipped


@case("Skipped")
def another_run_is_under_way(world: World) -> steadlock.SteadlockError:
    """Another program runs the job. The message names it, if its client and yours tell which program they are."""
    server = world.server()
    run = world.client(server, client_info=True, client_label="worker-7").once("report").start()
    error = raised(world.client(server, client_info=True).once("report").start)
    run.succeed()
    return error


@case("Skipped")
def the_job_is_done(world: World) -> steadlock.SteadlockError:
    """Another program has run the job, and `at_least` has not passed since that run began."""
    client = world.client(world.server())
    client.once("report", at_least=600).start().succeed()
    return raised(client.once("report").start)


@case("Skipped")
def the_key_is_done(world: World) -> steadlock.SteadlockError:
    """A run of this key ended well, and the server remembers the key for `keep`."""
    client = world.client(world.server())
    client.once("report", key="monday").start().succeed()
    return raised(client.once("report", key="monday").start)


# --- LockTimeout


@case("LockTimeout")
def another_program_works(world: World) -> steadlock.SteadlockError:
    """Another program holds the lock for longer than you wait. The message names it, if its client and yours tell
    which program they are, as they do by default.
    """
    server = world.server()
    world.client(server, client_info=True, client_label="worker-7").lock("stock:42").acquire()
    return error_of_waiting(world.client(server, client_info=True).lock("stock:42"))


@case("LockTimeout")
def a_holder_was_killed(world: World) -> steadlock.SteadlockError:
    """The holder's process was killed. Its lease ends by itself, after the time that the message gives."""
    server = world.server()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            steadlock.connect(server.url, client_info=False).lock("stock:42").acquire()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    return error_of_waiting(world.client(server).lock("stock:42"))


@case("LockTimeout")
def the_same_program_holds_it(world: World) -> steadlock.SteadlockError:
    """Another thread or task of this very program holds it. Reentry is by thread or task, not by program."""
    client = world.client(world.server())
    world.held_by_another_thread(client.lock("stock:42"))
    return error_of_waiting(client.lock("stock:42"))


@case("LockTimeout")
def a_mutex_in_itself(world: World) -> steadlock.SteadlockError:
    """The caller holds this mutex itself. A mutex is not reentrant; `lock()` is. Without a bound the wait is refused
    as `InvalidArgument`.
    """
    client = world.client(world.server())
    client.mutex("stock:42").acquire()
    return error_of_waiting(client.mutex("stock:42"))


@case("LockTimeout")
def permits_are_gone(world: World) -> steadlock.SteadlockError:
    """All permits of the semaphore are held."""
    client = world.client(world.server())
    client.semaphore("uploads", limit=1).acquire()
    return error_of_waiting(client.semaphore("uploads", limit=1))


# --- Unavailable


@case("Unavailable")
def nothing_listens(world: World) -> steadlock.SteadlockError:
    """No server runs at this address, or a firewall refuses the connection."""
    return raised(lambda: world.connect(world.nowhere()))


@case("Unavailable")
def the_host_is_unknown(world: World) -> steadlock.SteadlockError:
    """The host's name is misspelled, or DNS does not know it where this program runs."""
    return raised(lambda: world.connect("redis://redis.invalid:6379", connect_timeout=5))


@case("Unavailable")
def the_server_hangs(world: World) -> steadlock.SteadlockError:
    """The server, or the network to it, hangs: the call ends with its wait and the command timeout. Whether the lock
    was granted is not known; if it was, the client releases it in the background.
    """
    server = world.server()
    client = world.client(server, command_timeout=2)
    lock = client.lock("stock:42")
    server.process.send_signal(signal.SIGSTOP)
    error = error_of_waiting(lock)
    server.process.send_signal(signal.SIGCONT)
    return error


@case("Unavailable")
def the_lease_is_too_short(world: World) -> steadlock.SteadlockError:
    """The lease is shorter than an answer of the server takes, and over before its grant arrives. Without a bound the
    wait ends after five such grants in a row.
    """
    client = world.connect(world.delayed(world.server(), 0.05))
    return raised(client.lock("stock:42", lease=0.1).acquire)


@case("Unavailable")
def the_server_is_full(world: World) -> steadlock.SteadlockError:
    """The server has no memory left for a new record. Leases that are held are renewed all the same."""
    server = world.server("--maxmemory-policy", "noeviction")
    client = world.client(server)
    world.operator(server).config_set("maxmemory", "1")
    return error_of_waiting(client.lock("stock:42"))


@case("Unavailable")
def most_primaries_are_away(world: World) -> steadlock.SteadlockError:
    """RedLock: fewer primaries answer than a majority."""
    urls = [world.server().url, world.nowhere(), world.nowhere()]
    return raised(lambda: world.connect(urls, connect_timeout=5))


# --- Misconfigured


@case("Misconfigured")
def the_password_is_wrong(world: World) -> steadlock.SteadlockError:
    """The user name or the password is wrong."""
    server = world.server("--user", "app", "on", ">right", "~*", "&*", "+@all")
    return raised(lambda: world.connect(server.url.replace("//", "//app:wrong@")))


@case("Misconfigured")
def a_permission_is_missing(world: World) -> steadlock.SteadlockError:
    """The server's user may not run scripts. SECURITY.md has the rights that locks need."""
    server = world.server("--user", "app", "on", ">pw", "~*", "&*", "+@all", "-@scripting")
    return raised(lambda: world.connect(server.url.replace("//", "//app:pw@")).lock("stock:42").acquire())


@case("Misconfigured")
def the_key_holds_something_else(world: World) -> steadlock.SteadlockError:
    """The key of this name holds something else: another kind of lock, or data of another program."""
    client = world.client(world.server())
    client.mutex("stock:42").acquire()
    return error_of_waiting(client.lock("stock:42"))


@case("Misconfigured")
def the_server_is_a_replica(world: World) -> steadlock.SteadlockError:
    """The address is a replica's, which cannot grant locks."""
    primary = world.server()
    replica = world.server("--replicaof", f"127.0.0.1 {primary.port}")
    return raised(lambda: world.client(replica))


@case("Misconfigured")
def it_is_no_cluster(world: World) -> steadlock.SteadlockError:
    """The URL is of another setup than the server: of a cluster for one that is none, or the reverse."""
    server = world.server()
    return raised(lambda: world.connect(server.url.replace("redis://", "redis+cluster://")))


# --- InvalidArgument


@case("InvalidArgument")
def a_name_is_too_long(world: World) -> steadlock.SteadlockError:
    """The name is empty, or longer than 512 bytes."""
    return raised(lambda: world.client(world.server()).lock("").acquire())


@case("InvalidArgument")
def a_lease_is_too_short(world: World) -> steadlock.SteadlockError:
    """A time is out of its range, often for a mistaken unit: Python's are seconds, Node's are milliseconds."""
    return raised(lambda: world.client(world.server()).lock("stock:42").try_acquire(lease=0.01))


@case("InvalidArgument")
def a_url_has_another_scheme(world: World) -> steadlock.SteadlockError:
    """The URL has a scheme that is not known."""
    return raised(lambda: world.connect("http://localhost:6379"))


@case("InvalidArgument")
def an_even_number_of_primaries(world: World) -> steadlock.SteadlockError:
    """RedLock with an even number of primaries, or with fewer than three."""
    return raised(lambda: world.connect([world.nowhere(), world.nowhere()]))


@case("InvalidArgument")
def a_limit_of_nothing(world: World) -> steadlock.SteadlockError:
    """A semaphore's limit is out of its range."""
    return raised(lambda: world.client(world.server()).semaphore("uploads", limit=0).acquire())


@case("InvalidArgument")
def a_mutex_in_itself_without_a_bound(world: World) -> steadlock.SteadlockError:
    """The caller holds this mutex itself, and waits for it without a bound. A mutex is not reentrant; `lock()` is."""
    mutex = world.client(world.server()).mutex("stock:42")
    mutex.acquire()
    return raised(mutex.acquire)


# --- NotOwner


@case("NotOwner")
def released_twice(world: World) -> steadlock.SteadlockError:
    """The lock is released a second time, for example by hand inside of a `with` block."""
    lock = world.client(world.server()).lock("stock:42")
    lock.acquire()
    lock.release()
    return raised(lock.release)


@case("NotOwner")
def released_by_another_thread(world: World) -> steadlock.SteadlockError:
    """Another thread or task releases it than the one that acquired it. To do that, hand its lease over."""
    lock = world.client(world.server()).lock("stock:42")
    world.held_by_another_thread(lock)
    return raised(lock.release)


@case("NotOwner")
def released_without_acquiring(world: World) -> steadlock.SteadlockError:
    """The lock was never acquired: `acquire` failed inside the `try` whose `finally` releases it."""
    lock = world.client(world.server()).lock("stock:42")
    return raised(lock.release)


@case("NotOwner")
def a_fixed_lease_is_over(world: World) -> steadlock.SteadlockError:
    """A lock with a fixed lease is released after the lease is over."""
    client = world.client(world.server())
    lock = client.lock("stock:42", lease=0.5)
    lock.acquire()
    lease = lock.lease
    assert lease
    wait_for_loss(lease)
    return raised(lock.release)


@case("NotOwner")
def a_lease_is_released_twice(world: World) -> steadlock.SteadlockError:
    """A lease is extended after its release."""
    lease = lease_of(world.client(world.server()).lock("stock:42"))
    lease.release()
    return raised(lambda: lease.extend(30))


# --- LockLost


@case("LockLost")
def the_lease_is_over(world: World) -> steadlock.SteadlockError:
    """`expired`: the work took longer than a fixed lease; or no renewal was confirmed for a whole lease, because the
    server was away or this program stood still (a pause of the machine, a long garbage collection, a debugger).
    """
    lease = lease_of(world.client(world.server()).lock("stock:42"), lease=0.5)
    wait_for_loss(lease)
    return raised(lambda: lease.extend(30))


@case("LockLost")
def the_record_was_removed(world: World) -> steadlock.SteadlockError:
    """`removed`: the record is gone from the server: `DEL`, `FLUSHALL` or `steadlock release --force`; eviction; a
    restart without the data; a failover to a replica that did not have the record yet.
    """
    server = world.server()
    lease = lease_of(world.client(server, lease=3).lock("stock:42"))
    world.operator(server).flushall()
    wait_for_loss(lease)
    return raised(lambda: lease.extend(30))


@case("LockLost")
def the_record_is_another_owners(world: World) -> steadlock.SteadlockError:
    """`stolen`: the record is another owner's: first it was removed, and then another owner acquired the lock."""
    server = world.server()
    lease = lease_of(world.client(server, lease=3).lock("stock:42"))
    world.operator(server).flushall()
    world.client(server).lock("stock:42").acquire()
    wait_for_loss(lease)
    return raised(lambda: lease.extend(30))


@case("LockLost")
def max_hold_has_passed(world: World) -> steadlock.SteadlockError:
    """`max_hold`: the lock was held for as long as its `max_hold` allows."""
    lease = lease_of(world.client(world.server()).lock("stock:42"), max_hold=0.5)
    wait_for_loss(lease)
    return raised(lambda: lease.extend(30))


@case("LockLost")
def the_client_was_closed(world: World) -> steadlock.SteadlockError:
    """`closed`: the client was closed while the lock was held, by another thread or before the end of the block."""
    client = world.client(world.server())

    def hold() -> None:
        with client.lock("stock:42").hold():
            client.close()

    return raised(hold)


def wait_for_loss(lease: steadlock.Lease) -> None:
    """Waits until the client has noticed the loss, a moment after the deadline."""
    assert lease.lost.wait(10), "the lease is not lost"


# --- Closed


@case("Closed")
def used_after_close(world: World) -> steadlock.SteadlockError:
    """The client was closed before: its `with` block is over, the program shuts down, or a test's fixture has ended."""
    client = world.client(world.server())
    client.close()
    return raised(lambda: client.lock("stock:42").acquire())


@case("Closed")
def closed_during_a_wait(world: World) -> steadlock.SteadlockError:
    """Another thread closes the client while this one waits for a lock, as a program does that shuts down."""
    server = world.server()
    world.client(server).lock("stock:42").acquire()
    client = world.client(server)
    errors: list[steadlock.SteadlockError] = []
    thread = threading.Thread(target=lambda: errors.append(raised(client.lock("stock:42").acquire)))
    thread.start()
    operator = world.operator(server)
    deadline = time.monotonic() + 10
    while not operator.pubsub_channels("*stock:42*"):
        assert time.monotonic() < deadline, "the waiter did not subscribe"
    client.close()
    thread.join()
    return errors[0]


@case("Closed")
def a_lease_of_a_closed_client(world: World) -> steadlock.SteadlockError:
    """A lease of a closed client is extended."""
    client = world.client(world.server())
    lease = lease_of(client.lock("stock:42"))
    client.close()
    return raised(lambda: lease.extend(30))


# --- Forked


def in_a_child(call: Callable[[], steadlock.SteadlockError]) -> steadlock.SteadlockError:
    """Returns the error that the call returns in the child of a fork."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        error = call()
        os.write(sending, json.dumps([str(error), error.lock_name, error.operation]).encode())
        os._exit(0)
    os.close(sending)
    with os.fdopen(receiving, "rb") as outcome_file:
        message, lock_name, operation = json.loads(outcome_file.read())
    os.waitpid(child, 0)
    return steadlock.ForkedError(message, lock_name=lock_name, operation=operation)


@case("Forked")
def a_lease_in_a_child(world: World) -> steadlock.SteadlockError:
    """A child process uses a lease that its parent acquired before the fork: by `os.fork`, `multiprocessing` with the
    start method `fork`, Gunicorn with `--preload`, or Celery's prefork pool. The parent holds the lock; the child does
    not. A client may be used in the child: it connects anew there.
    """
    lease = lease_of(world.client(world.server()).lock("stock:42"))
    return in_a_child(lambda: raised(lease.release))


@case("Forked")
def a_private_store_in_a_child(world: World) -> steadlock.SteadlockError:
    """A child process uses a `memory://` client of its parent, whose store is in the parent's memory."""
    client = world.connect("memory://")
    client.lock("stock:42").locked()
    return in_a_child(lambda: raised(client.lock("stock:42").acquire))


@functools.cache
def caused(cause: Cause) -> tuple[steadlock.SteadlockError, dict[str, str]]:
    """Causes the error once. Returns it, and the address on the page for each address in it."""
    with contextlib.ExitStack() as closing:
        world = World(closing)
        return cause(world), world.addresses
