package io.github.steadlock

import io.github.steadlock.internal.MissingLibrary
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir
import java.io.IOException
import java.nio.file.Files
import java.nio.file.Path

/**
 * Tests the error messages for a native library that cannot be loaded. `LoadingTest` tests them in a JVM that cannot
 * load it.
 */
class MissingLibraryTest {
    @Test
    fun `a missing jar is named by its classifier`() {
        assertTrue("with the classifier linux-x86_64, or" in explained("linux-x86-64"))
        assertTrue("with the classifier linux-aarch64, or" in explained("linux-aarch64"))
        assertTrue("the classifier all" in explained("linux-aarch64"))
    }

    @Test
    fun `no jar is named for an unsupported platform`() {
        val said = explained("darwin-aarch64")
        assertTrue("no native library for darwin-aarch64" in said && "-Djna.library.path=FOLDER" in said, said)
        assertFalse("classifier" in said, said)
    }

    @Test
    fun `a library that cannot be loaded needs another folder`() {
        val said = explained("linux-x86-64", isPacked = true)
        assertTrue("(java.io.IOException: it is full)" in said && "-Djna.tmpdir=FOLDER" in said, said)
    }

    @Test
    fun `the cause of the failure is named with its remedy`() {
        fun explained(cause: Throwable): String =
            MissingLibrary("libsteadlock_jvm.so", "linux-x86-64", isPacked = true, isMusl = false)
                .explain(ExceptionInInitializerError(cause))
        val refused = explained(IllegalCallerException("Illegal native access"))
        assertTrue("Illegal native access" in refused && "--enable-native-access=ALL-UNNAMED" in refused, refused)
        val absent = explained(NoClassDefFoundError("java/util/logging/Logger"))
        assertTrue("java/util/logging/Logger" in absent && "java.logging" in absent, absent)
        assertFalse("tmpdir" in refused + absent)
    }

    @Test
    fun `musl is named first, because no jar supports it`() {
        for (isPacked in listOf(false, true)) {
            val said = explained("linux-x86-64", isPacked, isMusl = true)
            assertTrue("runs on musl" in said && "a system with glibc" in said, said)
            assertFalse("classifier" in said, said)
        }
    }

    @Test
    fun `the C library is recognized by the mapped files`(
        @TempDir folder: Path,
    ) {
        val maps = folder.resolve("maps")
        Files.writeString(maps, "7f00-7f01 r-xp 00000000 fe:00 5 /lib/ld-musl-x86_64.so.1\n")
        assertTrue(MissingLibrary.isMusl(maps))
        Files.writeString(maps, "7f00-7f01 r-xp 00000000 fe:00 5 /usr/lib/x86_64-linux-gnu/libc.so.6\n")
        assertFalse(MissingLibrary.isMusl(maps))
        assertFalse(MissingLibrary.isMusl(folder.resolve("none")), "a system without /proc")
    }

    private fun explained(platform: String, isPacked: Boolean = false, isMusl: Boolean = false): String =
        MissingLibrary("libsteadlock_jvm.so", platform, isPacked, isMusl)
            .explain(IOException("it is full"))
            .also { assertEquals("connect: ", it.take(9)) }
}
