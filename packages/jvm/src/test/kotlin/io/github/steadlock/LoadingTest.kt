package io.github.steadlock

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir
import java.io.File
import java.lang.ref.PhantomReference
import java.lang.ref.ReferenceQueue
import java.net.URLClassLoader
import java.nio.file.Files
import java.nio.file.Path
import java.util.concurrent.TimeUnit

/** Tests how a program loads the library and unloads it again. */
class LoadingTest {
    private val classPath = testClassPath.split(File.pathSeparatorChar).map(Path::of)

    @Test
    fun `a missing native library is reported`(
        @TempDir folder: Path,
    ) {
        val classes = classPath.first { Files.exists(it.resolve("io/github/steadlock/Steadlock.class")) }
        classes.toFile().walk().filter { it.extension == "class" || it.extension == "kotlin_module" }.forEach {
            val target = folder.resolve(classes.relativize(it.toPath()))
            Files.createDirectories(target.parent)
            Files.copy(it.toPath(), target)
        }
        val lines = linesOf(classPath.map { if (it == classes) folder else it })
        assertTwice(
            lines,
            "java.lang.UnsatisfiedLinkError: connect: the native library for ",
            "with the classifier linux-",
        )
    }

    /** Uses /proc, because not even root can make a folder there. */
    @Test
    fun `an unwritable folder for temporary files is reported`() {
        val lines = linesOf(classPath, "-Djna.tmpdir=/proc/steadlock", "-Djna.nosys=true")
        assertTwice(lines, "java.lang.UnsatisfiedLinkError: connect: the native library ", "-Djna.tmpdir=FOLDER")
    }

    @Test
    fun `an available library is loaded`() {
        assertEquals(listOf("connected", "connected"), linesOf(classPath))
    }

    /** Does what an application server does when it undeploys a program. The threads of the server continue. */
    @Test
    fun `a class loader is unloaded after its clients were closed`() {
        val queue = ReferenceQueue<ClassLoader>()
        // The program runs outside of JUnit's pool. A wait on a thread of the pool could start another thread of the
        // pool, which would refer to the program's class loader for ever.
        val loader = PhantomReference(onAnotherThread(::usedAndClosed), queue)
        awaitTrue("the class loader is collected", 60_000) {
            System.gc()
            queue.poll() === loader
        }
    }

    private fun usedAndClosed(): ClassLoader {
        // JNA keeps the classes that it knows, so the library must be where JNA is: in the class loader of the server.
        val (own, shared) = classPath.partition { Files.exists(it.resolve("io/github/steadlock/LoadingProgram.class")) }
        val server = URLClassLoader(urls(shared), ClassLoader.getPlatformClassLoader())
        val program = URLClassLoader(urls(own), server)
        val thread = Thread.currentThread()
        val before = thread.contextClassLoader
        thread.contextClassLoader = program
        try {
            program.loadClass("io.github.steadlock.LoadingProgram").getMethod("use").invoke(null)
        } finally {
            thread.contextClassLoader = before
            program.close()
        }
        return program
    }

    private fun urls(paths: List<Path>) = paths.map { it.toUri().toURL() }.toTypedArray()

    private fun linesOf(classPath: List<Path>, vararg options: String): List<String> {
        val path = classPath.joinToString(File.pathSeparator)
        val program = "io.github.steadlock.LoadingProgram"
        val process = javaProgram(program, options = options.asList(), classPath = path).start()
        val lines = process.inputReader().readLines()
        assertTrue(process.waitFor(60, TimeUnit.SECONDS))
        return lines
    }

    private fun assertTwice(lines: List<String>, begin: String, help: String) {
        assertEquals(2, lines.size, "$lines")
        lines.forEach { assertTrue(it.startsWith(begin) && it.contains(help), it) }
    }
}
