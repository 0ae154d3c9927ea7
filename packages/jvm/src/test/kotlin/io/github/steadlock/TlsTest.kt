package io.github.steadlock

import org.junit.jupiter.api.AfterAll
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.nio.file.Files
import java.nio.file.Path

/**
 * Tests `rediss://` with client certificates. The tests in `core/client/tests/tls.rs` cover the messages of refusals.
 */
class TlsTest {
    @Test
    fun `a client with a certificate connects`() {
        val builder = builder("ca.pem").tlsCertFile(file("client.pem")).tlsKeyFile(file("client.key"))
        builder.connect().use { client ->
            val lock = client.lock("door")
            assertTrue(lock.tryLock())
            lock.unlock()
        }
    }

    @Test
    fun `a client without a certificate is Misconfigured`() {
        val refused = assertThrows(MisconfiguredException::class.java) { builder("ca.pem").connect() }
        val message = checkNotNull(refused.message)
        assertTrue("demands a client certificate" in message && "tls_cert_file" in message, message)
    }

    @Test
    fun `an unknown authority is Misconfigured and half a pair is an invalid argument`() {
        assertThrows(MisconfiguredException::class.java) { builder("other.pem").connect() }
        assertThrows(InvalidArgumentException::class.java) {
            builder("ca.pem").tlsKeyFile(file("client.key")).connect()
        }
    }

    @Test
    fun `tlsServerName is verified`() {
        val refused =
            assertThrows(MisconfiguredException::class.java) {
                builder("ca.pem").tlsServerName("cache.example").connect()
            }
        val message = checkNotNull(refused.message)
        assertTrue("not for cache.example but for localhost" in message, message)
        assertThrows(InvalidArgumentException::class.java) {
            Steadlock.builder().url("redis://127.0.0.1:1").tlsServerName("cache.example").connect()
        }
    }

    private fun builder(ca: String) = Steadlock.builder().url("rediss://localhost:$port").tlsCaFile(file(ca))

    private companion object {
        val folder: Path = Files.createTempDirectory("steadlock-tls")
        val port: Int = freePort()

        init {
            val make = Path.of("../../ci/support/certificates.sh").toAbsolutePath().toString()
            check(ProcessBuilder(make, "$folder").start().waitFor() == 0) { "no certificates" }
        }

        val server =
            RedisServer(
                *arrayOf("--tls-port", "$port", "--tls-auth-clients", "yes"),
                *arrayOf("--tls-cert-file", "${file("server.pem")}", "--tls-key-file", "${file("server.key")}"),
                *arrayOf("--tls-ca-cert-file", "${file("ca.pem")}"),
            )

        fun file(name: String): Path = folder.resolve(name)

        @JvmStatic
        @AfterAll
        fun stop() {
            server.close()
            folder.toFile().deleteRecursively()
        }
    }
}
