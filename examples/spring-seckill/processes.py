"""The programs of a run: a Redis, a database, and the instances of the service. Each is a context manager.

Each program runs in a separate session: Ctrl-C then signals only the runner, which stops the programs in order.
"""

import contextlib
import functools
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
STEADLOCK = ROOT / "target" / "release" / "steadlock"
TIMEOUT = 60.0

# Creates an empty database with this name. Returns its URL and its user.
Databases = Callable[[str], tuple[str, str]]


class RunError(Exception):
    """The run cannot continue. The message has the reason."""


def free_port(first: int = 10_000, end: int = 32_000) -> int:
    """Returns a free port from `first` on and below `end`.

    The port is below the range that systems give to outgoing connections: such a connection could take the port
    before the program starts.
    """
    while True:
        port = random.randrange(first, end)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


def jar(boot: str) -> Path:
    """Returns the path of the service's jar for Spring Boot 3 or 4."""
    path = HERE / "target" / f"boot{boot}" / "spring-seckill.jar"
    if not path.exists():
        raise RunError(f"{path.relative_to(ROOT)} is not built: run ./ci/just demo-spring")
    return path


@contextlib.contextmanager
def program(
    command: Sequence[str | Path], log: Path, user: str | None = None, stop: int = signal.SIGTERM
) -> Iterator["subprocess.Popen[bytes]"]:
    """Runs a program that writes to `log`. Sends it the signal `stop` when the context closes."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=user,
            group=user,
            extra_groups=[] if user else None,
        )
    try:
        yield process
    finally:
        process.send_signal(stop)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until(up: Callable[[], bool], process: "subprocess.Popen[bytes]", what: str, log: Path) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not up():
        if process.poll() is not None:
            raise RunError(f"{what} ended with status {process.returncode}:\n{tail(log)}")
        if time.monotonic() > deadline:
            raise RunError(f"{what} did not start within {TIMEOUT:.0f} s:\n{tail(log)}")
        time.sleep(0.05)


def tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-30:])


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@contextlib.contextmanager
def redis_server(folder: Path, port: int | None = None) -> Iterator[str]:
    """Runs a redis-server, or `steadlock serve` if none is installed, and yields its URL."""
    port = port or free_port()
    log = folder / "redis.log"
    command: list[str | Path]
    if found := shutil.which("redis-server"):
        command = [found, "--port", str(port), "--save", "", "--appendonly", "no", "--dir", folder]
    elif STEADLOCK.exists():
        command = [STEADLOCK, "serve", "--port", str(port)]
    else:
        raise RunError("there is neither a redis-server nor the steadlock command: run ./ci/just demo-spring")
    with program(command, log) as process:
        wait_until(lambda: listens(port), process, "Redis", log)
        yield f"redis://127.0.0.1:{port}"


def postgresql_programs() -> Path:
    """Returns the folder of initdb, which is not on the PATH on Debian."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    versions = [folder for folder in Path("/usr/lib/postgresql").glob("*/bin") if (folder / "initdb").exists()]
    if not versions:
        raise RunError("there is no PostgreSQL here: run ci/install postgresql, or use --database h2")
    return max(versions, key=lambda folder: float(folder.parent.name))


@contextlib.contextmanager
def postgresql(folder: Path) -> Iterator[Databases]:
    """Runs a PostgreSQL with its data in `folder`, and yields the function that creates databases."""
    programs, port, log = postgresql_programs(), free_port(), folder / "postgresql.log"
    data = folder / "data"
    data.mkdir()
    # PostgreSQL refuses to run as root. Its package has created the user `postgres`.
    user = "postgres" if os.geteuid() == 0 else None
    if user:
        shutil.chown(data, user, user)
    making: list[str | Path] = [programs / "initdb", "-D", data, "-U", "seckill", "--auth=trust", "--no-sync"]
    with program([*making, "-E", "UTF8", "--locale=C"], log, user) as process:
        if process.wait(TIMEOUT):
            raise RunError(f"initdb ended with status {process.returncode}:\n{tail(log)}")

    where = ("-h", "127.0.0.1", "-p", str(port), "-U", "seckill")

    def create(name: str) -> tuple[str, str]:
        subprocess.run([programs / "createdb", *where, name], check=True)
        return f"jdbc:postgresql://127.0.0.1:{port}/{name}", "seckill"

    def up() -> bool:
        return subprocess.run([programs / "pg_isready", "-q", *where], check=False).returncode == 0

    # On SIGINT, PostgreSQL stops without waiting for its clients ("fast shutdown").
    serving: list[str | Path] = [programs / "postgres", "-D", data, "-p", str(port), "-k", ""]
    with program([*serving, "-c", "listen_addresses=127.0.0.1"], log, user, stop=signal.SIGINT) as process:
        wait_until(up, process, "PostgreSQL", log)
        yield create


@contextlib.contextmanager
def h2(folder: Path, boot: str) -> Iterator[Databases]:
    """Runs H2, which is in the jar of the service, as a server with databases in memory. Yields their URLs by name."""
    port, log = free_port(), folder / "h2.log"
    launcher = "org.springframework.boot.loader.launch.PropertiesLauncher"
    command: list[str | Path] = [java(), "-XX:+UseSerialGC", "-cp", jar(boot), "-Dloader.main=org.h2.tools.Server"]
    options = ["-tcp", "-tcpPort", str(port), "-ifNotExists", "-baseDir", str(folder)]
    with program([*command, launcher, *options], log) as process:
        wait_until(lambda: listens(port), process, "H2", log)
        settings = "DB_CLOSE_DELAY=-1;MODE=PostgreSQL;DATABASE_TO_LOWER=TRUE"
        yield lambda name: (f"jdbc:h2:tcp://127.0.0.1:{port}/mem:{name};{settings}", "sa")


@dataclass(frozen=True)
class Service:
    """An instance of the service. It listens on a port that the system chooses."""

    name: str
    process: "subprocess.Popen[bytes]"
    log: Path

    @functools.cached_property
    def url(self) -> str:
        """The URL of an instance that is up."""
        (port,) = self._ports()
        return f"http://127.0.0.1:{port}"

    def _ports(self) -> list[str]:
        """Returns the port that the log names, or nothing while the instance does not listen."""
        return re.findall(r"Tomcat started on port (\d+)", self.log.read_text(errors="replace"))

    def wait_until_up(self) -> None:
        wait_until(self._is_up, self.process, f"instance {self.name}", self.log)

    def _is_up(self) -> bool:
        if not self._ports():
            return False
        try:
            with urllib.request.urlopen(f"{self.url}/actuator/health", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            return False


@contextlib.contextmanager
def service(name: str, folder: Path, boot: str, properties: dict[str, str]) -> Iterator[Service]:
    """Starts an instance without waiting until it is up, so that two instances can start in parallel."""
    log = folder / f"{name}.log"
    properties = properties | {"server.port": "0", "server.address": "127.0.0.1", "seckill.instance": name}
    command = [
        java(),
        # The instance runs for seconds only, so the compiler with the shorter start-up is the better one.
        *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", f"-Djava.io.tmpdir={folder}"),
        *(["--enable-native-access=ALL-UNNAMED"] if knows_native_access() else []),
        *("-jar", str(jar(boot)), *(f"--{key}={value}" for key, value in properties.items())),
    ]
    with program(command, log) as process:
        yield Service(name, process, log)


@functools.cache
def knows_native_access() -> bool:
    """Whether this Java warns about native access without --enable-native-access, as versions from 22 on do."""
    version = subprocess.run([java(), "-version"], capture_output=True, text=True, check=True).stderr
    return int(version.split('"')[1].split(".")[0]) >= 22
