"""The pairs of other libraries and our locks that share records, and the operations of a pair in a test."""

from collections.abc import Callable
from dataclasses import dataclass

from peers import Library, Peer
from server import Server

REDIS_PY = Library("redis-py", "python")
REDLOCK = Library("redlock", "node")
REDLOCK_UNIVERSAL = Library("redlock-universal", "node")
REDIS_SEMAPHORE = Library("redis-semaphore", "node", prefix="mutex:", reports_lost_release=False)
SPRING = Library("spring", "jvm", prefix="orders:")
REDISSON = Library("redisson", "jvm")
REDISSON_SPIN = Library("redisson-spin", "jvm")
# Locks that teams write themselves: docs/migrate/hand-written.md.
HASH = Library("hash", "jvm")
SET_NX = Library("set-nx", "jvm", reports_lost_release=False)
SECKILL = Library("seckill", "jvm", prefix="lock:", reports_lost_release=False)

HAND_WRITTEN = [HASH, SET_NX, SECKILL]
MUTEXES = [REDIS_PY, REDLOCK, REDLOCK_UNIVERSAL, REDIS_SEMAPHORE, SPRING, SET_NX, SECKILL]
LOCKS = [REDISSON, REDISSON_SPIN, HASH]


def ours(kind: str, language: str) -> Library:
    return Library(f"steadlock-{kind}", language)


def ours_for(theirs: Library, language: str) -> Library:
    """Returns our lock with the same records as theirs, in a language."""
    return ours("lock" if theirs in LOCKS else "mutex", language)


def _with(theirs: Library) -> list[Library]:
    """Returns our lock in Python and in the language of the other library; for hand-written locks, in each language."""
    languages = ["python", "jvm", "node"] if theirs in HAND_WRITTEN else ["python", theirs.language]
    return [ours_for(theirs, language) for language in dict.fromkeys(languages)]


PAIRS = [(theirs, own) for theirs in MUTEXES + LOCKS for own in _with(theirs)]


@dataclass(frozen=True)
class Pair:
    """Another library and ours on one lock, with a new name."""

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
        """The owner in the lock's record."""
        record = self.record
        assert record, "the lock is free"
        return str(next(iter(record)) if isinstance(record, dict) else record)

    def acquire(self, peer: Peer, lease_ms: int = 30_000) -> None:
        assert peer.call("try", self._name_for(peer), lease_ms) == "held"

    def expect_refusal(self, peer: Peer) -> str:
        answer = peer.call("try", self._name_for(peer), 30_000)
        assert answer.startswith("refused")
        return answer

    def wait(self, peer: Peer, attempts: int = 2) -> None:
        """Begins to wait for the lock, and returns once `attempts` attempts have reached the server."""
        self.server.begin_wait(lambda: peer.send("lock", self._name_for(peer), 30_000), attempts)
        assert peer.has_not_answered()

    def wait_and_acquire(self, peer: Peer) -> None:
        """Waits for the lock until it is granted."""
        assert peer.call("lock", self._name_for(peer), 30_000) == "held"

    def release(self, peer: Peer) -> None:
        assert peer.call("unlock", self._name_for(peer)) == "released"

    def release_lost(self, peer: Peer) -> None:
        """Releases a lock that does not belong to the peer any more."""
        answer = peer.call("unlock", self._name_for(peer))
        assert answer.startswith("gone") or not peer.library.reports_lost_release

    def turn(self, peer: Peer, inside: Callable[[], None]) -> None:
        """Acquires the lock, calls a function, and releases the lock."""
        self.wait_and_acquire(peer)
        inside()
        self.release(peer)

    def _name_for(self, peer: Peer) -> str:
        return self.name if peer is self.theirs else self.key
