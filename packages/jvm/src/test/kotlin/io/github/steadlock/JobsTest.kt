package io.github.steadlock

import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.async
import kotlinx.coroutines.awaitCancellation
import kotlinx.coroutines.runBlocking
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNotNull
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.IOException
import java.time.Duration
import java.util.UUID
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CompletionException

/** Tests of jobs that run once, on the embedded store and on a real redis-server. */
class JobsTest {
    private val hour = Duration.ofHours(1)

    private fun onEachServer(scenario: (SteadlockClient, SteadlockClient) -> Unit) {
        RedisServer().use { server ->
            for (url in listOf("memory://jobs-${UUID.randomUUID()}", server.url)) {
                Steadlock.connect(url).use { one -> Steadlock.connect(url).use { two -> scenario(one, two) } }
            }
        }
    }

    private fun skipped(job: NamedJob): Skipped = job.start() as Skipped

    @Test
    fun `at most one run goes on, and others learn of it`() =
        onEachServer { one, two ->
            val run = one.once("j").start() as JobRun
            assertTrue(run.lease.token!! > 0 && run.lease.isValid)
            for (client in listOf(one, two)) {
                val skipped = skipped(client.once("j"))
                assertEquals(SkipReason.RUNNING, skipped.reason)
                assertEquals(ProcessHandle.current().pid(), skipped.by!!.client!!.pid)
                assertTrue(skipped.since != null && skipped.took == null && "running" in skipped.message)
                assertEquals(SkipReason.RUNNING, skipped.toException().reason)
            }
            assertEquals(ReleaseOutcome.RELEASED, run.succeed())
            assertTrue(two.once("j").run { 7 } == Ran(7))
        }

    @Test
    fun `a job is done for as long as it says`() =
        onEachServer { one, two ->
            assertEquals("x", one.once("j").withAtLeast(hour).run { "x" }.getOrNull())
            val skipped = skipped(two.once("j"))
            assertEquals(SkipReason.DONE, skipped.reason)
            assertTrue(skipped.took!! < hour && skipped.by!!.remaining!! > hour.dividedBy(2))
            assertTrue(two.forceRelease(two.once("j")))
            (two.once("j").start() as JobRun).succeed(hour)
            assertEquals(SkipReason.DONE, skipped(one.once("j")).reason, "the time was given at the end")
        }

    @Test
    fun `a key that is done is not run again, and a failure is not done unless it is kept`() =
        onEachServer { one, two ->
            val monday = one.once("j").withKey("monday")
            assertThrows(IOException::class.java) { monday.run<Unit, IOException> { throw IOException("disk") } }
            assertTrue(monday.run { 1 }.isRan)
            assertEquals(SkipReason.DONE, skipped(two.once("j").withKey("monday")).reason)
            val tuesday = two.once("j").withKey("tuesday").withOnFailure(OnFailure.KEEP)
            (tuesday.start() as JobRun).close()
            assertEquals(SkipReason.DONE, skipped(tuesday).reason)
            assertThrows(InvalidArgumentException::class.java) { one.once("j").withKey("").start() }
            assertThrows(InvalidArgumentException::class.java) {
                one.once("j").withAtLeast(hour.multipliedBy(25)).start()
            }
        }

    @Test
    fun `the last runs of a job are known`() =
        onEachServer { one, two ->
            assertNull(one.once("j").lastRun())
            val run = one.once("j").start() as JobRun
            assertEquals(RunState.RUNNING, two.once("j").lastRun()!!.state)
            run.fail()
            val last = two.once("j").lastRun()!!
            assertEquals(RunState.ENDED to RunOutcome.FAILED, last.state to last.ended!!.outcome)
            assertNull(last.succeeded)
            one.once("j").run { }
            assertEquals(two.once("j").lastRun()!!.ended!!.at, two.once("j").lastRun()!!.succeeded)
        }

    @Test
    fun `a stage ends its run`() =
        onEachServer { one, two ->
            val body = CompletableFuture<String>()
            val stage = one.once("j").withAtLeast(hour).runAsync { body }.toCompletableFuture()
            eventually("it runs") { two.once("j").lastRun()?.state == RunState.RUNNING }
            body.complete("x")
            assertEquals(Ran("x"), stage.get())
            val skipped = one.once("j").runAsync { CompletableFuture.completedFuture(1) }.toCompletableFuture().get()
            assertEquals(SkipReason.DONE, (skipped as Skipped).reason)
            val failed = one.once("k").withAtLeast(hour).runAsync<Int> {
                CompletableFuture.failedFuture(IOException("x"))
            }
            val why = assertThrows(CompletionException::class.java) { failed.toCompletableFuture().join() }
            assertTrue(why.cause is IOException)
            assertTrue(two.once("k").run { 1 }.isRan, "a failed run is free at once")
        }

    @Test
    fun `a run that nobody waits for any more has never begun`() =
        onEachServer { one, two ->
            repeat(20) {
                val started = one.once("j").withAtLeast(hour).startAsync().toCompletableFuture()
                if (!started.cancel(true)) (started.get() as? JobRun)?.fail()
            }
            eventually("the job is free") { two.once("j").run { 1 }.isRan }
            assertEquals(RunOutcome.SUCCEEDED, two.once("j").lastRun()!!.ended!!.outcome)
        }

    @Test
    fun `a coroutine that is cancelled ends its run as failed`() =
        onEachServer { one, two ->
            runBlocking {
                val begun = CompletableDeferred<Unit>()
                val job = one.once("j").withAtLeast(hour)
                val running =
                    async {
                        job.runSuspending {
                            begun.complete(Unit)
                            awaitCancellation()
                        }
                    }
                begun.await()
                running.cancel()
                running.join()
                assertEquals(Ran(5), two.once("j").runSuspending { 5 })
                assertEquals(Ran(6), job.runSuspending { 6 })
                assertTrue(two.once("j").runSuspending { 7 } is Skipped)
            }
        }

    @Test
    fun `a lost lease cancels the body, and the call says so`() {
        RedisServer().use { server ->
            Steadlock.connect(server.url).use { client ->
                val job = client.once("j").withLease(Duration.ofMillis(600))
                runBlocking {
                    val lost =
                        runCatching {
                            job.runSuspending {
                                client.forceRelease(client.once("j"))
                                awaitCancellation()
                            }
                        }
                    assertTrue(lost.exceptionOrNull() is LockLostException, "$lost")
                }
                val lost =
                    assertThrows(LockLostException::class.java) {
                        job.run { lease ->
                            client.forceRelease(client.once("j"))
                            eventually("the loss is known") { lease.lostReason != null }
                        }
                    }
                assertNotNull(lost.reason)
            }
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
