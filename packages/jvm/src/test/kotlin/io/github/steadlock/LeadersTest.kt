package io.github.steadlock

import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.async
import kotlinx.coroutines.awaitCancellation
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.flow.takeWhile
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.time.Duration
import java.util.UUID
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CopyOnWriteArrayList
import kotlin.concurrent.thread

/** Tests of leaders, on the embedded store and on a real redis-server. */
class LeadersTest {
    private val soon = Duration.ofSeconds(10)

    private fun onEachServer(scenario: (List<SteadlockClient>) -> Unit) {
        RedisServer().use { server ->
            for (url in listOf("memory://leaders-${UUID.randomUUID()}", server.url)) {
                val clients = List(3) { Steadlock.connect(url) }
                try {
                    scenario(clients)
                } finally {
                    clients.forEach(SteadlockClient::close)
                }
            }
        }
    }

    /** Campaigns on a thread of its own. Returns once the candidate is the last one of [place]. */
    private fun candidate(leader: NamedLeader, place: Int): CompletableFuture<Term> {
        val term = CompletableFuture<Term>()
        thread { runCatching(leader::campaign).fold(term::complete, term::completeExceptionally) }
        eventually("the candidate waits") { leader.candidates().size == place }
        return term
    }

    @Test
    fun `candidates lead in order, or as the leader wants`() =
        onEachServer { (one, two, three) ->
            val first = one.leader("l").campaign()
            val second = candidate(two.leader("l"), 1)
            val third = candidate(three.leader("l"), 2)
            val current = one.leader("l").current()
            assertEquals(first.number, current.term!!.number)
            assertEquals(ProcessHandle.current().pid(), current.term!!.holder.client!!.pid)
            first.resign(current.candidates[1])
            val chosen = third.get()
            assertTrue(chosen.number > first.number && !second.isDone)
            chosen.close()
            second.get().resign()
            assertNull(one.leader("l").current().term)
            one.leader("l").campaign().use {
                assertThrows(LockTimeoutException::class.java) {
                    two.leader("l").withWait(Duration.ZERO).campaign()
                }
            }
        }

    @Test
    fun `an observer never misses the last change`() =
        onEachServer { (one, two, _) ->
            val observer = two.leader("l").observe()
            assertEquals(Leadership(null, emptyList()), observer.next(soon))
            assertNull(observer.next(Duration.ofMillis(20)))
            val term = one.leader("l").campaign()
            assertEquals(term.number, observer.next(soon)!!.term!!.number)
            repeat(3) {
                one.forceRelease(one.leader("l"))
                two.leader("l").campaign().resign()
            }
            val last = two.leader("l").campaign()
            eventually("the last term is seen") { observer.next(soon)!!.term?.number == last.number }
            last.resign()
            runBlocking {
                val changes = one.leader("l").changes()
                val states = async(Dispatchers.Default) { changes.takeWhile { it.term != null }.toList() }
                // The first state is that nobody leads, so the flow ends at once.
                assertEquals(emptyList<Leadership>(), states.await())
                val again = two.leader("l").campaign()
                assertEquals(again.number, changes.first { it.term != null }.term?.number)
                again.resign()
                changes.first { it.term == null }
            }
        }

    @Test
    fun `a closed client hands over at once`() =
        onEachServer { (one, two, _) ->
            one.leader("l").campaign()
            val second = candidate(two.leader("l"), 1)
            val start = System.nanoTime()
            one.close()
            second.get().resign()
            assertTrue(System.nanoTime() - start < 2_000_000_000)
        }

    @Test
    fun `lead runs its body in each term, and interrupts it when the term is lost`() =
        onEachServer { (one, two, _) ->
            val terms = CopyOnWriteArrayList<Long>()
            one.leader("l").withTerm(Duration.ofMillis(600)).lead { term ->
                terms += term.number
                if (terms.size == 1) {
                    one.forceRelease(one.leader("l"))
                    Thread.sleep(60_000)
                }
            }
            assertTrue(terms.size == 2 && terms[1] > terms[0], "$terms")
            assertTrue(!Thread.interrupted(), "the interrupt was for the lost term only")
            assertNull(two.leader("l").current().term)
            val failed =
                assertThrows(IllegalStateException::class.java) {
                    one.leader("l").lead { error("the body fails") }
                }
            assertEquals("the body fails", failed.message)
            assertNull(two.leader("l").current().term)
        }

    @Test
    fun `a coroutine leads until it is cancelled`() =
        onEachServer { (one, two, _) ->
            val terms = CopyOnWriteArrayList<Long>()
            runBlocking {
                val leading =
                    launch {
                        one.leader("l").withTerm(Duration.ofMillis(600)).leadSuspending {
                            terms += it.number
                            awaitCancellation()
                        }
                    }
                val changes = two.leader("l").changes()
                changes.first { it.term != null }
                two.forceRelease(two.leader("l"))
                while (terms.size < 2) changes.first { it.term != null }
                leading.cancelAndJoin()
                assertEquals(null, changes.first().term)
                assertEquals(7, one.leader("l").leadSuspending { 7 })
            }
        }
}

private fun eventually(what: String, isSo: () -> Boolean) {
    val deadline = System.nanoTime() + 10_000_000_000
    while (!isSo()) {
        check(System.nanoTime() < deadline) { what }
        Thread.sleep(2)
    }
}
