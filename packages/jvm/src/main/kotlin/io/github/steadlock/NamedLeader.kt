package io.github.steadlock

import io.github.steadlock.internal.Ending
import io.github.steadlock.internal.Kind
import io.github.steadlock.internal.LockRef
import io.github.steadlock.internal.Owner
import io.github.steadlock.internal.Reply
import io.github.steadlock.internal.ThreadLock
import io.github.steadlock.internal.displayName
import io.github.steadlock.internal.expect
import java.time.Duration
import java.time.Instant
import java.util.function.Consumer

/**
 * The leadership of a group of processes: at most one of them leads at a time. Immutable: each `with` method returns a
 * changed copy.
 *
 * A process that wants to lead *campaigns*, and is served in order of arrival. A [Term] is a renewed lease, 10 s long by
 * default; its number rises from term to term, and is the fencing token. A leader is known by its client, never by its
 * host. When a leader resigns, or closes its client, the next candidate leads within two round trips; when a leader
 * dies, the next one leads as soon as the term ends.
 *
 * ```java
 * client.leader("mailer").lead(term -> {
 *     while (term.isValid()) { // the thread is interrupted when the term is lost
 *         sendMails(term.getNumber());
 *     }
 * });
 * ```
 *
 * The methods that campaign throw [InvalidArgumentException] for a bad name or duration, [UnavailableException] if the
 * server does not answer, [MisconfiguredException] if a key has another type, and [ClosedException] on a closed client.
 */
public class NamedLeader internal constructor(
    private val client: SteadlockClient,
    /** The name under which other programs know this leadership. */
    public val name: String,
    private val options: LockOptions,
) {
    internal val ref: LockRef = Kind.LEADER.ref(name)
    private val lock = ThreadLock(client, ref, options)

    internal val engine get() = client.engine

    internal fun request() = client.engine.acquire(ref, Owner.ofNoThread(), options)

    /**
     * Sets the length of a term, which is renewed while its leader lives: 300 ms to 24 h. After a crash of the leader,
     * nobody leads for at most that long. Default: 10 s.
     */
    public fun withTerm(term: Duration): NamedLeader = NamedLeader(client, name, options.withLease(term).renewed())

    /** Sets how long [campaign] waits at most; zero makes a single attempt. Default: as long as the server answers. */
    public fun withWait(wait: Duration): NamedLeader = NamedLeader(client, name, options.withWait(wait))

    /**
     * Waits to lead, in order of arrival.
     *
     * @throws LockTimeoutException if the wait of [withWait] is over; names the leader
     * @throws InterruptedException if the thread is interrupted; the campaign is undone in the background
     */
    @Throws(InterruptedException::class)
    public fun campaign(): Term = Term(lock.campaignInterruptibly().lease())

    /**
     * Leads until [body] returns by itself: campaigns, runs [body] in each term on the calling thread, and campaigns
     * again after a term is lost. When a term is lost, the thread is interrupted, so that [body] ends; what [body]
     * returns or throws then is dropped. Between two campaigns there is a pause of 100 ms that grows to 5 s while terms
     * are lost, or cannot be had, one after another. When [body] returns or throws in a term that is not lost, the term
     * is resigned, and this method returns or throws the same.
     *
     * @throws InterruptedException if the thread is interrupted from outside; the campaign is undone, or the term
     * resigned
     */
    @Throws(InterruptedException::class)
    public fun lead(body: Consumer<Term>) {
        var failures = 0
        while (true) {
            val term = campaignOrNull()
            val since = System.nanoTime()
            if (term != null && runTerm(term, body)) return
            if (System.nanoTime() - since > LONG_TERM_NANOS) failures = 0
            Thread.sleep(engine.campaignPauseMs(failures))
            failures += 1
        }
    }

    /**
     * Asks the server who leads, and who would lead next.
     *
     * @throws InvalidArgumentException if the name is bad, or this is a client of [Steadlock.redlock]
     * @throws UnavailableException if the server does not answer within the command timeout
     * @throws ClosedException if the client was closed
     */
    public fun current(): Leadership = engine.leadership(ref, null).await().expect<Reply.State>().leadershipOrNone()

    /** Returns the candidates in their order, at most 100. Makes one call to the server; throws as [current]. */
    public fun candidates(): List<Candidate> = current().candidates

    /** Returns an observer, which learns of the present leader and of each change. */
    public fun observe(): LeaderObserver = LeaderObserver(this)

    /** Campaigns; returns null if the campaign failed and the next one may succeed. */
    private fun campaignOrNull(): Term? =
        try {
            campaign()
        } catch (failed: SteadlockException) {
            if (!failed.isRetryable) throw failed
            null
        }

    /** Runs [body] in a term. Returns false if the term was lost before [body] ended. */
    private fun runTerm(term: Term, body: Consumer<Term>): Boolean {
        val interruption = Interruption(Thread.currentThread())
        val watch = term.lease.held.onLostInternal { interruption.interrupt() }
        var failure: Throwable? = null
        try {
            body.accept(term)
        } catch (thrown: Throwable) {
            failure = thrown
        }
        watch.close()
        val isLost = interruption.end() || term.lease.lostReason != null
        try {
            term.resign()
        } catch (second: SteadlockException) {
            failure?.addSuppressed(second) ?: throw second
        }
        if (isLost) return false
        failure?.let { throw it }
        return true
    }

    override fun toString(): String = "NamedLeader(name=${displayName(name)})"

    internal companion object {
        /** After a term of this length, the next pause is the shortest one again. */
        const val LONG_TERM_NANOS = 10_000_000_000L
    }
}

/** Interrupts [thread] while its term lasts, and not after that. */
private class Interruption(private val thread: Thread) {
    private var isOver = false
    private var isInterrupted = false

    @Synchronized
    fun interrupt() {
        if (isOver) return
        isInterrupted = true
        thread.interrupt()
    }

    /** Ends the term. Returns whether the thread was interrupted for it, and clears that interrupt. */
    @Synchronized
    fun end(): Boolean {
        isOver = true
        if (isInterrupted) Thread.interrupted()
        return isInterrupted
    }
}

/**
 * A term of this process: it leads until it resigns, or the term is lost. Safe for use by several threads.
 *
 * @property lease the lease of the term
 */
public class Term internal constructor(public val lease: Lease) : AutoCloseable {
    /** The number of the term, which is its fencing token: it rises from term to term. */
    public val number: Long
        get() = lease.token ?: 0

    /** Whether this process may rely on leading at this moment; see [Lease.isValid]. */
    public val isValid: Boolean
        get() = lease.isValid

    /** Resigns: the first candidate leads. Returns and throws as [Lease.release]. */
    public fun resign(): ReleaseOutcome = lease.release()

    /** Resigns in favour of [candidate]. If it does not wait any more, the first candidate leads. */
    public fun resign(candidate: Candidate): ReleaseOutcome =
        lease.held.release(Ending.Resignation(candidate.owner))

    /**
     * Resigns at the end of `try`-with-resources or of `use`.
     *
     * @throws LockLostException if the term was lost before
     */
    override fun close(): Unit = lease.close()

    override fun toString(): String = "Term(number=$number, $lease)"
}

/**
 * An observer of a leader. It learns of changes by a message, and by a poll every 500 to 750 ms in case a message is
 * lost. However many changes it misses, it learns of the last one. For use by one thread at a time.
 */
public class LeaderObserver internal constructor(private val leader: NamedLeader) {
    private var seen: Long? = null

    /**
     * Returns the present state at the first call, and later waits until it has changed, at most for [timeout]. Returns
     * null if nothing has changed by then.
     *
     * @throws InterruptedException if the thread is interrupted; the next call returns what this one would have
     * @throws UnavailableException only from the first call, if the server does not answer
     */
    @Throws(InterruptedException::class)
    public fun next(timeout: Duration): Leadership? {
        val reply = leader.engine.awaitAtMost(leader.engine.leadership(leader.ref, seen), timeout) ?: return null
        return reply.expect<Reply.State>().leadershipOrNone().also { seen = it.number }
    }
}

/**
 * The present leader, and those that would lead next.
 *
 * @property term the present term, or null if nobody leads
 * @property candidates the live candidates in their order, at most 100
 */
public data class Leadership(val term: LeaderTerm?, val candidates: List<Candidate>) {
    internal val number: Long get() = term?.number ?: 0
}

/**
 * The term of a leader, as others see it.
 *
 * @property number the number of the term, which is the fencing token of its leader
 * @property since when the term began, by the server's clock
 * @property holder the leader, and how long it leads if nothing renews its lease
 */
public data class LeaderTerm(val number: Long, val since: Instant, val holder: Holder)

/**
 * A candidate.
 *
 * @property owner the owner id of its request
 * @property client the program of the candidate, or null if unknown
 */
public data class Candidate(val owner: String, val client: ClientInfo?)

private fun Reply.State.leadershipOrNone(): Leadership = leadership ?: Leadership(null, emptyList())
