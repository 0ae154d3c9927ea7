package io.github.steadlock.internal

import io.github.steadlock.Candidate
import io.github.steadlock.ClientInfo
import io.github.steadlock.EndedRun
import io.github.steadlock.Holder
import io.github.steadlock.LastRun
import io.github.steadlock.LeaderTerm
import io.github.steadlock.Leadership
import io.github.steadlock.LostReason
import io.github.steadlock.ReleaseOutcome
import io.github.steadlock.RunOutcome
import io.github.steadlock.RunState
import io.github.steadlock.SkipReason
import java.nio.ByteBuffer
import java.time.Duration
import java.time.Instant

/** The receiver of the native part's events, one call per event. */
internal interface EventSink {
    fun granted(tag: Long, lease: Long, token: Long?, isDegraded: Boolean)

    /**
     * Reports the release of [lease]. [lost] is the reason if the release found the lease expired or stolen, or null.
     */
    fun released(tag: Long, lease: Long, outcome: ReleaseOutcome, lost: LostReason?)

    fun held(tag: Long, levels: Int, lease: Long?)

    fun replied(tag: Long, reply: Reply)

    /** Reports the loss of [lease]. [isForgotten] means that it needs no release, as a fixed lease after its loss. */
    fun lost(lease: Long, reason: LostReason, isForgotten: Boolean)

    fun observed(line: LogLine)
}

/**
 * A reader of a batch of events that `bindings/jvm/src/wire.rs` has written. The comment at the top of that file
 * describes the bytes.
 */
internal class EventReader(private val buffer: ByteBuffer) {
    fun readAll(sink: EventSink) {
        while (buffer.hasRemaining()) {
            read(sink)
        }
    }

    private fun read(sink: EventSink) {
        val kind = buffer.get().toInt()
        val number = buffer.getLong()
        when (kind) {
            CONNECTED -> sink.replied(number, Reply.Connected)
            GRANTED -> sink.granted(number, buffer.getLong(), optional(), flag())
            NOT_GRANTED -> sink.replied(number, Reply.NotGranted(failure()))
            FAILED -> sink.replied(number, Reply.Failed(failure()))
            RELEASED -> sink.released(number, buffer.getLong(), ReleaseOutcome.valueOf(text().uppercase()), reason())
            EXTENDED -> sink.replied(number, Reply.Extended)
            STATE -> sink.replied(number, Reply.State(holder(), permits(), lastRun(), leadership()))
            HELD -> sink.held(number, buffer.getInt(), optional())
            CLOSED -> sink.replied(number, Reply.Closed)
            LOST -> sink.lost(number, LostReason.valueOf(text().uppercase()), flag())
            FORCED -> sink.replied(number, Reply.Forced(flag()))
            OBSERVED -> sink.observed(LogLine(text(), text(), fields()))
            else -> error("the native part sent an event of kind $kind, which this library does not know")
        }
    }

    private fun flag(): Boolean = buffer.get().toInt() == 1

    private fun optional(): Long? = buffer.getLong().takeIf { it >= 0 }

    private fun text(): String {
        val bytes = ByteArray(buffer.getInt())
        buffer.get(bytes)
        return String(bytes, Charsets.UTF_8)
    }

    private fun failure(): Failure {
        val kind = text()
        val operation = text()
        val message = text()
        val cause = text().takeIf(String::isNotEmpty)
        val lock = if (flag()) text() else null
        val holder = holder()
        return Failure(
            kind,
            operation,
            message,
            lock,
            holder,
            reason(),
            node = text().takeIf(String::isNotEmpty),
            isRetryable = flag(),
            isSkipped = flag(),
            cause = cause,
            skip = skip(),
        )
    }

    private fun skip(): Skip? {
        val reason = text()
        val since = instant()
        val took = optional()?.let(Duration::ofMillis)
        return if (reason.isEmpty()) null else Skip(SkipReason.valueOf(reason.uppercase()), since, took)
    }

    private fun instant(): Instant? = optional()?.let(Instant::ofEpochMilli)

    private fun lastRun(): LastRun? {
        if (!flag()) return null
        val state = RunState.valueOf(text().uppercase())
        val started = instant()
        val client = clientOrNull()
        val succeeded = instant()
        return LastRun(state, started, client, if (flag()) endedRun() else null, succeeded)
    }

    private fun endedRun(): EndedRun =
        EndedRun(
            Instant.ofEpochMilli(buffer.getLong()),
            Duration.ofMillis(buffer.getLong()),
            RunOutcome.valueOf(text().uppercase()),
            clientOrNull(),
        )

    private fun leadership(): Leadership? {
        if (!flag()) return null
        val number = optional()
        val since = instant()
        val holder = holder()
        val term = if (number == null || since == null || holder == null) null else LeaderTerm(number, since, holder)
        return Leadership(term, List(buffer.getInt()) { Candidate(text(), clientOrNull()) })
    }

    private fun clientOrNull(): ClientInfo? = if (flag()) client() else null

    private fun reason(): LostReason? = text().takeIf(String::isNotEmpty)?.let { LostReason.valueOf(it.uppercase()) }

    private fun holder(): Holder? {
        if (buffer.get().toInt() == 0) {
            return null
        }
        return Holder(text(), optional()?.let(Duration::ofMillis), if (flag()) client() else null)
    }

    private fun client(): ClientInfo {
        val (host, program, language, version, label) = List(5) { text() }
        val pid = buffer.getLong()
        // Another client wrote this number to the server, so it can be out of range.
        val since = Instant.ofEpochSecond(buffer.getLong().coerceAtMost(Instant.MAX.epochSecond))
        return ClientInfo(host, pid, program, language, version, since, label)
    }

    private fun fields(): Map<String, Any> {
        val count = buffer.getInt()
        return (1..count).associate { text() to if (buffer.get().toInt() == 0) text() else buffer.getLong() }
    }

    private fun permits(): Permits? {
        val held = optional()
        val limit = optional()
        return if (held == null || limit == null) null else Permits(held.toInt(), limit.toInt())
    }

    private companion object {
        const val CONNECTED = 1
        const val GRANTED = 2
        const val NOT_GRANTED = 3
        const val FAILED = 4
        const val RELEASED = 5
        const val EXTENDED = 6
        const val STATE = 7
        const val HELD = 8
        const val CLOSED = 9
        const val LOST = 10
        const val FORCED = 11
        const val OBSERVED = 12
    }
}
