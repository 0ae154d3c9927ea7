"""Which libraries stand beside which lock of ours, and one such pair at work."""

from collections.abc import Callable
from dataclasses import dataclass

from peers import Library, Peer
from server import Server

REDIS_PY = Library("redis-py", "python")
REDLOCK = Library("redlock", "node")
REDLOCK_UNIVERSAL = Library("redlock-universal", "node")
REDIS_SEMAPHORE = Library("redis-semaphore", "node", prefix="mutex:", tells=False)
SPRING = Library("spring", "jvm", prefix="orders:")
REDISSON = Library("redisson", "jvm")
REDISSON_SPIN = Library("redisson-spin", "jvm")
# As teams write them themselves: docs/migrate/hand-written.md.
HASH = Library("hash", "jvm")
SET_NX = Library("set-nx", "jvm", tells=False)
SECKILL = Library("seckill", "jvm", prefix="lock:", tells=False)

HAND_WRITTEN = [HASH, SET_NX, SECKILL]
MUTEXES = [REDIS_PY, REDLOCK, REDLOCK_UNIVERSAL, REDIS_SEMAPHORE, SPRING, SET_NX, SECKILL]
LOCKS = [REDISSON, REDISSON_SPIN, HASH]


def ours(kind: str, language: str) -> Library:
    return Library(f"steadlock-{kind}", language)


def beside(theirs: Library, language: str) -> Library:
    """Ours that shares the records of theirs."""
    return ours("lock" if theirs in LOCKS else "mutex", language)


def _with(theirs: Library) -> list[Library]:
    """Ours in Python, and in the language of the other; beside hand-written ones in each."""
    languages = ["python", "jvm", "node"] if theirs in HAND_WRITTEN else ["python", theirs.language]
    return [beside(theirs, language) for language in dict.fromkeys(languages)]


PAIRS = [(theirs, own) for theirs in MUTEXES + LOCKS for own in _with(theirs)]


@dataclass(frozen=True)
class Pair:
    """Their library and ours on one lock of a new name."""

    theirs: Peer
    ours: Peer
    server: Server
    name: str

    @classmethod
    def of(cls, theirs: Library, own: Library, server: Server, start: Callable[[Library], Peer]) -> "Pair":
        return cls(start(theirs), start(own), server, server.new_name())

    @property
    def key(self) -> str:
        return self.theirs.library.prefix + self.name

    @property
    def record(self) -> object:
        return self.server.record(self.key)

    @property
    def owner(self) -> str:
        """Who holds the lock, as the record has it."""
        record = self.record
        assert record, "nobody holds the lock"
        return str(next(iter(record)) if isinstance(record, dict) else record)

    def take(self, peer: Peer, lease_ms: int = 30_000) -> None:
        assert peer.ask("try", self._name_for(peer), lease_ms) == "held"

    def try_in_vain(self, peer: Peer) -> str:
        said = peer.ask("try", self._name_for(peer), 30_000)
        assert said.startswith("refused")
        return said

    def wait(self, peer: Peer, tries: int = 2) -> None:
        """Begins to wait for the lock; returns once the server has refused it so often."""
        self.server.waits(lambda: peer.tell("lock", self._name_for(peer), 30_000), tries)
        assert peer.is_silent()

    def take_in_time(self, peer: Peer) -> None:
        """Waits for the lock, and takes it."""
        assert peer.ask("lock", self._name_for(peer), 30_000) == "held"

    def release(self, peer: Peer) -> None:
        assert peer.ask("unlock", self._name_for(peer)) == "released"

    def release_late(self, peer: Peer) -> None:
        """Releases what is not its own any more."""
        said = peer.ask("unlock", self._name_for(peer))
        assert said.startswith("gone") or not peer.library.tells

    def turn(self, peer: Peer, inside: Callable[[], None]) -> None:
        """Waits for the lock, does something, and releases it."""
        self.take_in_time(peer)
        inside()
        self.release(peer)

    def _name_for(self, peer: Peer) -> str:
        return self.name if peer is self.theirs else self.key
