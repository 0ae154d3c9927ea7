package io.github.steadlock

import io.github.steadlock.internal.Engine
import io.github.steadlock.internal.Kind
import io.github.steadlock.internal.LockKey
import io.github.steadlock.internal.Reply
import io.github.steadlock.internal.ThreadLock
import io.github.steadlock.internal.ThreadSemaphore
import io.github.steadlock.internal.cleaner
import io.github.steadlock.internal.expect
import io.github.steadlock.internal.invalidArgument
import io.github.steadlock.internal.shown

/**
 * A connection to one Redis or Valkey, or to several primaries ([Steadlock.redlock]), through which locks are taken.
 * Make one per process and share it: it is safe for use by several threads, and a lock object costs next to nothing.
 *
 * A lock's name is 1 to 512 bytes of UTF-8 without NUL, checked when the lock is taken; braces only as one non-empty
 * `{tag}`; not beginning with `steadlock:` or `redisson_`. Locks of different kinds with one name are different locks,
 * with two exceptions. [lock] and [fairLock] exclude each other. And [mutex] has the same key as these two, so that a
 * name is for the one or for the others: taking the one while the other is held throws [MisconfiguredException].
 *
 * A client that is dropped without [close] says so in a warning, and closes when nothing is held by it any more.
 *
 * An idle client, and also one that holds locks, does not keep the JVM from ending. When it ends, holds of threads
 * that have ended are released; threads that still run keep theirs until the process is gone.
 */
public class SteadlockClient internal constructor(internal val engine: Engine) : AutoCloseable {
    /** Its locks refer to it, so it is garbage only if nobody can use them any more. */
    private val drop = cleaner.register(this, engine::drop)

    /** The reentrant lock of that name; of [Steadlock.redlock] the one that is not reentrant. */
    public fun lock(name: String): NamedLock = lock(name, LockOptions.DEFAULT)

    /** The reentrant lock of that name, taken with [options] unless a call says otherwise. */
    public fun lock(name: String, options: LockOptions): NamedLock = lockOf(Kind.LOCK, name, options)

    /**
     * The simple lock of that name, in the layout of most other lock libraries: it excludes those of the same key, so
     * that a team can move one service at a time. Not reentrant: a thread that holds it and asks again without a bound
     * is refused with [InvalidArgumentException]; with one it ends as timed out. It shares its key with [lock] and [fairLock] of the name: each finds the other's record to be
     * [MisconfiguredException], and never waits for it.
     */
    public fun mutex(name: String): NamedLock = mutex(name, LockOptions.DEFAULT)

    /** The simple lock of that name, taken with [options] unless a call says otherwise. */
    public fun mutex(name: String, options: LockOptions): NamedLock = lockOf(Kind.MUTEX, name, options)

    /**
     * The reentrant lock of that name whose waiters are served in order of arrival, whatever their process. It
     * excludes [lock] of the name, whose waiters may overtake.
     */
    public fun fairLock(name: String): NamedLock = fairLock(name, LockOptions.DEFAULT)

    /** The fair lock of that name, taken with [options] unless a call says otherwise. */
    public fun fairLock(name: String, options: LockOptions): NamedLock = lockOf(Kind.FAIR, name, options)

    /** The read-write lock of that name. */
    public fun readWriteLock(name: String): NamedReadWriteLock = readWriteLock(name, LockOptions.DEFAULT)

    /** The read-write lock of that name, both sides taken with [options] unless a call says otherwise. */
    public fun readWriteLock(name: String, options: LockOptions): NamedReadWriteLock =
        NamedReadWriteLock(lockOf(Kind.READ, name, options), lockOf(Kind.WRITE, name, options))

    /**
     * The semaphore of that name.
     *
     * @param limit how many permits there are, 1 to 1,000,000, checked when permits are taken; all clients give the
     * same, and [setLimit] changes it
     */
    public fun semaphore(name: String, limit: Int): NamedSemaphore = semaphore(name, limit, LockOptions.DEFAULT)

    /** The semaphore of that name, whose permits are taken with [options] unless a call says otherwise. */
    public fun semaphore(name: String, limit: Int, options: LockOptions): NamedSemaphore =
        ThreadSemaphore(this, name, limit, options)

    /** Several locks as one. See the other [multiLock]. */
    public fun multiLock(vararg locks: NamedLock): NamedLock = multiLock(locks.asList())

    /** Several locks as one, with all defaults. See the other [multiLock]. */
    public fun multiLock(locks: Collection<NamedLock>): NamedLock = multiLock(locks, LockOptions.DEFAULT)

    /**
     * Several locks as one, all or none. They are taken in the order of their keys, so that two programs never wait
     * for each other; kinds may be mixed, a semaphore by [NamedSemaphore.permits]. Its lease has no token, and
     * is lost if one of the locks is. Who holds it cannot be asked: [NamedLock.isLocked] and
     * [NamedLock.holder] throw [InvalidArgumentException].
     *
     * Taking it throws [InvalidArgumentException] for no locks, for one that is named twice or is itself several.
     *
     * @param locks of this client; their own options do not count
     * @param options how the whole is taken unless a call says otherwise
     * @throws InvalidArgumentException if a lock is not of this client
     */
    public fun multiLock(locks: Collection<NamedLock>, options: LockOptions): NamedLock =
        ThreadLock(this, LockKey.several(locks.map { own(it, "acquire").key }), options)

    /**
     * Takes a lock from its holder; of a read side, from all readers. For operators: the holder goes on until
     * its next renewal tells it of the loss. One call to the server.
     *
     * @param lock of this client; not several as one
     * @return whether anybody held it
     * @throws InvalidArgumentException if the name is bad, or [lock] is several as one or not of this client
     * @throws UnavailableException if the answer did not come: look whether it is still held
     * @throws MisconfiguredException if a key of another type is in the lock's place
     * @throws ClosedException if the client was closed
     */
    public fun forceRelease(lock: NamedLock): Boolean =
        engine.forceRelease(own(lock, "release").key).await().expect<Reply.Forced>().wasHeld

    /** Takes all permits of [semaphore] from their holders. See the other [forceRelease]. */
    public fun forceRelease(semaphore: NamedSemaphore): Boolean = forceRelease(semaphore.permits(1))

    /**
     * Changes the limit of the semaphore of that name. For operators: who holds permits keeps them; while more are
     * held than the new limit allows, none is granted. From then on who asks with the old limit gets
     * [MisconfiguredException]. One call to the server.
     *
     * @param limit how many permits there are from now on, 1 to 1,000,000
     * @return whether it was changed: while nobody holds a permit there is no limit to change, and the next one to
     * take some brings its own
     * @throws InvalidArgumentException if the name is bad, or [limit] is out of its range
     * @throws UnavailableException if the answer did not come: ask again, it is idempotent
     * @throws MisconfiguredException if a key of another type is in the semaphore's place
     * @throws ClosedException if the client was closed
     */
    public fun setLimit(name: String, limit: Int): Boolean =
        engine.setLimit(Kind.SEMAPHORE.key(name, 1, limit)).await().expect<Reply.Forced>().wasHeld

    /**
     * What this client has counted since it was made, in Prometheus' text format, to be served with the content type
     * `text/plain; version=0.0.4`. A local look that asks no server; also of a client that was closed.
     *
     * @throws InvalidArgumentException if the client was made without [SteadlockBuilder.metrics]
     */
    public fun metrics(): String = engine.metrics()

    /** Whether [close] was called, or the client failed. */
    public val isClosed: Boolean
        get() = engine.isClosed

    /**
     * Closes the client: waiters get [ClosedException], held leases are lost for the reason [LostReason.CLOSED] and
     * are then released, of which a warning tells. Takes 500 ms at the most, whatever the server does. The second time it
     * does nothing.
     */
    override fun close() {
        try {
            engine.close()
        } finally {
            drop.clean()
        }
    }

    /** [lock] as this client made it. */
    internal fun own(lock: NamedLock, operation: String): ThreadLock {
        if (lock is ThreadLock && lock.engine === engine) {
            return lock
        }
        val name = shown(lock.name)
        val message = "$operation of lock \"$name\": it is not of this client; give one that this client made"
        throw invalidArgument(message, lock.name, operation)
    }

    private fun lockOf(kind: Kind, name: String, options: LockOptions) = ThreadLock(this, kind.key(name), options)
}
