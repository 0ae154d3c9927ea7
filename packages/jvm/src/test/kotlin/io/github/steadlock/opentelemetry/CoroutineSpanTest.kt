package io.github.steadlock.opentelemetry

import io.github.steadlock.withLock
import io.github.steadlock.withPermits
import io.opentelemetry.api.trace.Span
import io.opentelemetry.context.Context
import io.opentelemetry.context.Scope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.ThreadContextElement
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withContext
import kotlinx.coroutines.yield
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test
import kotlin.coroutines.AbstractCoroutineContextElement
import kotlin.coroutines.CoroutineContext

/** Tests the spans of coroutines, whose current span moves with them from thread to thread. */
class CoroutineSpanTest {
    private val collected = Collected()

    @AfterEach
    fun close() = collected.close()

    @Test
    fun `the spans of a coroutine are children of its own span`() =
        counting().connect().use { client ->
            SteadlockTelemetry.instrument(client, collected.sdk).use {
                val callers =
                    runBlocking(Dispatchers.Default) {
                        coroutineScope {
                            (1..CALLERS).map { number ->
                                val span = collected.sdk.getTracer("test").spanBuilder("caller").startSpan()
                                launch(Current(span)) {
                                    yield()
                                    client.withLock("stock:$number") {
                                        withContext(Dispatchers.IO) {
                                            client.withPermits(client.semaphore("all:$number", 1)) { yield() }
                                        }
                                    }
                                }
                                "$number" to span.spanContext.spanId
                            }
                        }
                    }
                val parents =
                    collected.spans(4 * CALLERS).groupBy(
                        { it["lock"]?.substringAfter(':') },
                        { it.parentSpanId },
                    )
                assertEquals(callers.associate { (number, span) -> number to List(4) { span } }, parents)
            }
        }

    @Test
    fun `a cancelled wait of a coroutine has the outcome cancelled`() =
        counting().connect().use { client ->
            SteadlockTelemetry.instrument(client, collected.sdk).use {
                runBlocking {
                    client.withLock("held") {
                        val waiting = launch(Dispatchers.Default) { client.withLock("held") { error("granted") } }
                        while ("steadlock_waiting{kind=\"lock\",group=\"none\"} 1" !in client.metrics()) yield()
                        waiting.cancelAndJoin()
                    }
                }
                val outcomes = collected.spans(3).map { it["outcome"] }
                assertEquals(setOf("granted", "cancelled", "released"), outcomes.toSet())
            }
        }

    /** Makes a span the current one on every thread of its coroutine, like `opentelemetry-extension-kotlin`. */
    private class Current(span: Span) :
        AbstractCoroutineContextElement(Current),
        ThreadContextElement<Scope> {
        private val context = Context.root().with(span)

        override fun updateThreadContext(context: CoroutineContext): Scope = this.context.makeCurrent()

        override fun restoreThreadContext(context: CoroutineContext, oldState: Scope) = oldState.close()

        companion object : CoroutineContext.Key<Current>
    }

    private companion object {
        const val CALLERS = 20
    }
}
