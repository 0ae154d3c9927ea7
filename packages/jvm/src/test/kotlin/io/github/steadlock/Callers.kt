package io.github.steadlock

import java.time.Duration
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CountDownLatch
import java.util.concurrent.ExecutionException
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.TimeUnit

/** Makes the calls of a scenario for its tasks. */
interface Callers : AutoCloseable {
    /** Whether a task owns the locks that it acquires. */
    val areOwners: Boolean

    fun acquire(task: String, wanted: Wanted): Lease

    fun tryAcquire(task: String, wanted: Wanted, wait: Duration): Lease?

    /** Starts a call in the background. Returns when the call waits or has ended. */
    fun start(task: String, wanted: Wanted): Call

    /** Starts an attempt that races with others, without waiting for the outcome. */
    fun startTry(task: String, wanted: Wanted, wait: Duration): CompletableFuture<Lease?>

    /** Returns the options to re-enter [lease]. */
    fun within(options: LockOptions, lease: Lease): LockOptions

    fun <T> run(task: String, work: () -> T): T

    /** Ends a task. Returns when it has ended. */
    fun end(task: String)
}

/** A call in the background. */
class Call(val granted: CompletableFuture<Lease>, val cancel: () -> Unit)

/** The lock or the permits that a step acquires. */
interface Wanted {
    fun acquire(): Lease

    fun tryAcquire(wait: Duration): Lease?

    fun acquireAsync(options: LockOptions = LockOptions.DEFAULT): CompletableFuture<Lease>

    /** Releases the lease that the calling thread acquired last. */
    fun leave()
}

class WantedLock(private val lock: NamedLock) : Wanted {
    override fun acquire(): Lease {
        lock.lockInterruptibly()
        return lock.held
    }

    override fun tryAcquire(wait: Duration): Lease? {
        val granted = if (wait.isZero) lock.tryLock() else lock.tryLock(wait)
        return if (granted) lock.lease else null
    }

    override fun acquireAsync(options: LockOptions): CompletableFuture<Lease> =
        lock.lockAsync(options).toCompletableFuture()

    override fun leave() = unwrapped(lock::unlock)
}

class WantedPermits(private val semaphore: NamedSemaphore, private val permits: Int) : Wanted {
    override fun acquire(): Lease = semaphore.acquire(permits)

    override fun tryAcquire(wait: Duration): Lease? =
        if (wait.isZero) semaphore.tryAcquire(permits) else semaphore.tryAcquire(permits, wait)

    override fun acquireAsync(options: LockOptions): CompletableFuture<Lease> =
        semaphore.acquireAsync(permits, options).toCompletableFuture()

    override fun leave() = unwrapped(semaphore::release)
}

/** Throws the cause of an `IllegalMonitorStateException`, the type that `java.util.concurrent` requires. */
private fun unwrapped(unlock: () -> Unit) {
    try {
        unlock()
    } catch (refused: IllegalMonitorStateException) {
        throw checkNotNull(refused.cause)
    }
}

/** Makes each task a thread, which owns the locks that it acquires. */
class Threads : Callers {
    private val tasks = mutableMapOf<String, Task>()

    override val areOwners = true

    override fun acquire(task: String, wanted: Wanted): Lease = run(task, wanted::acquire)

    override fun tryAcquire(task: String, wanted: Wanted, wait: Duration): Lease? =
        run(task) { wanted.tryAcquire(wait) }

    override fun start(task: String, wanted: Wanted): Call {
        val (thread, begun) = of(task) to CountDownLatch(1)
        val granted =
            thread.submit {
                begun.countDown()
                wanted.acquire()
            }
        begun.await()
        awaitTrue("the call is made") { granted.isDone || thread.state == Thread.State.WAITING }
        return Call(granted) {
            thread.interrupt()
            val failed = runCatching { granted.get(5, TimeUnit.SECONDS) }.exceptionOrNull()
            check((failed as? ExecutionException)?.cause is InterruptedException) { "not interrupted: $failed" }
        }
    }

    override fun startTry(task: String, wanted: Wanted, wait: Duration): CompletableFuture<Lease?> =
        of(task).submit { wanted.tryAcquire(wait) }

    // The thread owns the lock, so a re-entry needs no lease.
    override fun within(options: LockOptions, lease: Lease): LockOptions = options

    override fun <T> run(task: String, work: () -> T): T =
        try {
            of(task).submit(work).get(10, TimeUnit.SECONDS)
        } catch (failed: ExecutionException) {
            throw checkNotNull(failed.cause)
        }

    override fun end(task: String) {
        val thread = checkNotNull(tasks.remove(task)) { "no task $task" }
        thread.interrupt()
        thread.join(10_000)
        check(!thread.isAlive) { "$task does not end" }
    }

    override fun close() = tasks.values.forEach(Thread::interrupt)

    private fun of(task: String): Task = tasks.getOrPut(task) { Task(task).apply { start() } }

    private class Task(name: String) : Thread(name) {
        private val work = LinkedBlockingQueue<() -> Unit>()

        init {
            isDaemon = true
        }

        fun <T> submit(action: () -> T): CompletableFuture<T> {
            val result = CompletableFuture<T>()
            work.put {
                try {
                    result.complete(action())
                } catch (failure: Throwable) {
                    result.completeExceptionally(failure)
                }
            }
            return result
        }

        override fun run() {
            while (true) {
                try {
                    work.take()()
                } catch (_: InterruptedException) {
                    return
                }
            }
        }
    }
}

/** Makes the calls by stages. The tasks are only names: any code that has a lease owns it. */
class Stages : Callers {
    override val areOwners = false

    override fun acquire(task: String, wanted: Wanted): Lease = wanted.get(LockOptions.DEFAULT)

    override fun tryAcquire(task: String, wanted: Wanted, wait: Duration): Lease? =
        try {
            startTry(task, wanted, wait).get(10, TimeUnit.SECONDS)
        } catch (failed: ExecutionException) {
            throw checkNotNull(failed.cause)
        }

    override fun start(task: String, wanted: Wanted): Call {
        val granted = wanted.acquireAsync()
        return Call(granted) { check(granted.cancel(true)) { "granted before it was cancelled" } }
    }

    override fun startTry(task: String, wanted: Wanted, wait: Duration): CompletableFuture<Lease?> =
        wanted.acquireAsync(LockOptions.DEFAULT.withWait(wait)).handle { lease, failed ->
            if (failed != null && failed !is LockTimeoutException) throw failed
            lease
        }

    override fun within(options: LockOptions, lease: Lease): LockOptions = options.within(lease)

    override fun <T> run(task: String, work: () -> T): T = work()

    override fun end(task: String) = Unit

    override fun close() = Unit

    private fun Wanted.get(options: LockOptions): Lease =
        try {
            acquireAsync(options).get(10, TimeUnit.SECONDS)
        } catch (failed: ExecutionException) {
            throw checkNotNull(failed.cause)
        }
}
