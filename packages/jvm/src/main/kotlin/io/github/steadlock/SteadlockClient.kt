package io.github.steadlock

import io.github.steadlock.internal.Engine
import io.github.steadlock.internal.Kind
import io.github.steadlock.internal.LockRef
import io.github.steadlock.internal.Reply
import io.github.steadlock.internal.RunTerms
import io.github.steadlock.internal.ThreadLock
import io.github.steadlock.internal.ThreadSemaphore
import io.github.steadlock.internal.cleaner
import io.github.steadlock.internal.displayName
import io.github.steadlock.internal.expect
import io.github.steadlock.internal.invalidArgument

/**
 * A client of a Redis or Valkey server or cluster, or of several primaries ([Steadlock.redlock]), through which a
 * program acquires locks. Make one client per process and share it: it is safe for use by several threads. Lock objects
 * are cheap to make.
 *
 * A lock's name is 1 to 512 bytes of UTF-8 without NUL, with braces only as one non-empty `{tag}`, and not beginning
 * with `steadlock:` or `redisson_`. The name is checked when the lock is acquired. Locks of different kinds with one
 * name are different locks, with two exceptions: [lock] and [fairLock] exclude each other, and [mutex] has the same key
 * as these two. Use a name either for a [mutex] or for the other two: acquiring one while the other is held throws
 * [MisconfiguredException].
 *
 * A client that the program drops without [close] logs a warning, and closes itself when it holds no lock any more.
 *
 * A client does not keep the JVM from ending, even if it holds locks. When the JVM ends, the client releases the holds
 * of threads that have ended. All other holds stay until their leases end, because nothing renews them once the process
 * is gone.
 */
public class SteadlockClient internal constructor(internal val engine: Engine) : AutoCloseable {
    /**
     * Drops the engine when this object is garbage. Lock objects refer to their client, so the client becomes garbage
     * only when the program has none of its lock objects any more.
     */
    private val drop = cleaner.register(this, engine::drop)

    /**
     * Returns the reentrant lock [name]. A client of [Steadlock.redlock] returns a RedLock, which is not reentrant.
     */
    public fun lock(name: String): NamedLock = lock(name, LockOptions.DEFAULT)

    /** Returns the reentrant lock [name] with [options], which a call can override. */
    public fun lock(name: String, options: LockOptions): NamedLock = lockOf(Kind.LOCK, name, options)

    /**
     * Returns the mutex [name], a simple lock whose record has the format of most other lock libraries. It excludes
     * locks of these libraries with the same key, so that a team can migrate one service at a time. A mutex is not
     * reentrant: if the thread that holds it acquires it again without a bounded wait, the call throws
     * [InvalidArgumentException]; with a bounded wait it times out, unless the mutex becomes free meanwhile. A mutex
     * shares its key with [lock] and [fairLock] of the same name: acquiring one while the other is held throws
     * [MisconfiguredException] without a wait.
     */
    public fun mutex(name: String): NamedLock = mutex(name, LockOptions.DEFAULT)

    /** Returns the mutex [name] with [options], which a call can override. */
    public fun mutex(name: String, options: LockOptions): NamedLock = lockOf(Kind.MUTEX, name, options)

    /**
     * Returns the fair lock [name]: a reentrant lock whose waiters are served in order of arrival, across all
     * processes. It excludes [lock] of the same name, whose waiters may overtake.
     */
    public fun fairLock(name: String): NamedLock = fairLock(name, LockOptions.DEFAULT)

    /** Returns the fair lock [name] with [options], which a call can override. */
    public fun fairLock(name: String, options: LockOptions): NamedLock = lockOf(Kind.FAIR, name, options)

    /** Returns the read-write lock [name]. */
    public fun readWriteLock(name: String): NamedReadWriteLock = readWriteLock(name, LockOptions.DEFAULT)

    /** Returns the read-write lock [name]. Both sides have [options], which a call can override. */
    public fun readWriteLock(name: String, options: LockOptions): NamedReadWriteLock =
        NamedReadWriteLock(lockOf(Kind.READ, name, options), lockOf(Kind.WRITE, name, options))

    /**
     * Returns the semaphore [name].
     *
     * @param limit the number of permits, 1 to 1,000,000, checked when permits are acquired; all clients must give the
     * same limit, and [setLimit] changes it
     */
    public fun semaphore(name: String, limit: Int): NamedSemaphore = semaphore(name, limit, LockOptions.DEFAULT)

    /** Returns the semaphore [name] with [options], which a call can override. */
    public fun semaphore(name: String, limit: Int, options: LockOptions): NamedSemaphore =
        ThreadSemaphore(this, name, limit, options)

    /**
     * Returns the job [name], of which at most one run goes on at a time in the whole fleet. A request never waits: it
     * is granted a run, or skipped.
     */
    public fun once(name: String): NamedJob = NamedJob(this, name, RunTerms(), LockOptions.DEFAULT)

    /** Returns the leadership [name]: at most one process leads at a time, and the others wait in order. */
    public fun leader(name: String): NamedLeader = NamedLeader(this, name, LockOptions.DEFAULT)

    /** Returns a composite lock of [locks]. See the other [multiLock]. */
    public fun multiLock(vararg locks: NamedLock): NamedLock = multiLock(locks.asList())

    /** Returns a composite lock of [locks], with all defaults. See the other [multiLock]. */
    public fun multiLock(locks: Collection<NamedLock>): NamedLock = multiLock(locks, LockOptions.DEFAULT)

    /**
     * Returns a composite lock of [locks]: it holds all of its members or none. Members are acquired in the order of
     * their keys, so that two programs never wait for each other. Kinds can be mixed; for a semaphore use
     * [NamedSemaphore.permits]. The lease has no token, and is lost if one member is lost. The composite lock has no
     * holder of its own: [NamedLock.isLocked] and [NamedLock.holder] throw [InvalidArgumentException].
     *
     * Acquiring the composite lock throws [InvalidArgumentException] if there are no members, if a lock is a member
     * twice, or if a member is itself a composite lock.
     *
     * @param locks locks of this client; their own options are ignored
     * @param options the options of the composite lock, which a call can override
     * @throws InvalidArgumentException if a lock belongs to another client
     */
    public fun multiLock(locks: Collection<NamedLock>, options: LockOptions): NamedLock =
        ThreadLock(this, LockRef.several(locks.map { own(it, "acquire").ref }), options)

    /**
     * Removes the record of a lock, so that the holder loses the lock; for a read side, removes the records of all
     * readers. For operators: the holder does not notice the loss before its next renewal, or with a fixed lease before
     * its deadline, unless it extends or releases the lease. Makes one call to the server, or one to each primary of a
     * RedLock.
     *
     * @param lock a lock of this client that [multiLock] did not make
     * @return whether the lock was held
     * @throws InvalidArgumentException if the name is bad, [multiLock] made [lock], or [lock] belongs to another client
     * @throws UnavailableException if no reply came; check whether the lock is still held
     * @throws MisconfiguredException if the key of the lock has another type
     * @throws ClosedException if the client was closed
     */
    public fun forceRelease(lock: NamedLock): Boolean =
        engine.forceRelease(own(lock, "release").ref).await().expect<Reply.Forced>().wasHeld

    /** Removes the records of all permits of [semaphore]. See the other [forceRelease]. */
    public fun forceRelease(semaphore: NamedSemaphore): Boolean = forceRelease(semaphore.permits(1))

    /**
     * Removes the record of [job], so that it can run again at once, whether it is running or done. See the other
     * [forceRelease].
     */
    public fun forceRelease(job: NamedJob): Boolean =
        engine.forceRelease(job.ref).await().expect<Reply.Forced>().wasHeld

    /** Removes the record of the [leader], so that another candidate leads. See the other [forceRelease]. */
    public fun forceRelease(leader: NamedLeader): Boolean =
        engine.forceRelease(leader.ref).await().expect<Reply.Forced>().wasHeld

    /**
     * Changes the limit of the semaphore [name]. For operators: holders keep their permits, and none is granted while
     * more are held than the new limit allows. From then on, acquisitions with the old limit throw
     * [MisconfiguredException] while any permit is held. Makes one call to the server.
     *
     * @param limit the number of permits from now on, 1 to 1,000,000
     * @return whether the limit was changed. The server has no limit to change while no permit is held: the next
     * acquisition sets its own limit
     * @throws InvalidArgumentException if the name is bad, [limit] is out of its range, or this is a client of
     * [Steadlock.redlock]
     * @throws UnavailableException if no reply came; call again, because the call is idempotent
     * @throws MisconfiguredException if the key of the semaphore has another type
     * @throws ClosedException if the client was closed
     */
    public fun setLimit(name: String, limit: Int): Boolean =
        engine.setLimit(Kind.SEMAPHORE.ref(name, 1, limit)).await().expect<Reply.Forced>().wasHeld

    /**
     * Returns the metrics of this client since it was made, in Prometheus' text format. Serve them with the content
     * type `text/plain; version=0.0.4`. Makes no server call, and works for a closed client too.
     *
     * @throws InvalidArgumentException if the client was made without [SteadlockBuilder.metrics]
     */
    public fun metrics(): String = engine.metrics()

    /** Whether [close] was called or the client failed. */
    public val isClosed: Boolean
        get() = engine.isClosed

    /**
     * Closes the client. Waiters get [ClosedException]. Held leases are lost for the reason [LostReason.CLOSED] and
     * then released, with a warning in the log. Takes at most 500 ms, even if the server does not answer. A second call
     * only waits for the first.
     */
    override fun close() {
        try {
            engine.close()
        } finally {
            drop.clean()
        }
    }

    /** Returns [lock] as a [ThreadLock], or throws if another client made it. */
    internal fun own(lock: NamedLock, operation: String): ThreadLock {
        if (lock is ThreadLock && lock.engine === engine) {
            return lock
        }
        val name = displayName(lock.name)
        val message = "$operation of lock \"$name\": another client made it; make it by this one"
        throw invalidArgument(message, lock.name, operation)
    }

    private fun lockOf(kind: Kind, name: String, options: LockOptions) = ThreadLock(this, kind.ref(name), options)
}
