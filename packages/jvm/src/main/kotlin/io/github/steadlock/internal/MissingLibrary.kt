package io.github.steadlock.internal

import java.nio.file.Files
import java.nio.file.Path

/** The state of the native library in a program, for the error message if it cannot be loaded. */
internal class MissingLibrary(
    val file: String,
    /** JNA's name of the platform, which is also the folder of the library. */
    val platform: String,
    val isPacked: Boolean,
    val isMusl: Boolean,
) {
    /** Returns the reason why the library could not be loaded, and the remedy. */
    fun explain(error: Throwable): String {
        // JNA loads its own library while its class `Native` is initialized. The error of that load is the last one in
        // the chain of causes.
        val cause = generateSequence(error) { it.cause }.take(MOST_CAUSES).last()
        return when {
            isMusl ->
                "connect: this JVM runs on musl, as on Alpine Linux, and the native libraries, $file and JNA's own, " +
                    "are for glibc ($cause); run it on a system with glibc, such as Debian"

            cause is IllegalCallerException ->
                "connect: this JVM lets no native library be loaded ($cause); start it with " +
                    "--enable-native-access=ALL-UNNAMED, or =com.sun.jna if JNA is on the module path"

            cause is NoClassDefFoundError || cause is ClassNotFoundException ->
                "connect: a class is missing with which $file is loaded ($cause); a runtime image by jlink needs " +
                    "the module java.logging, and JNA the name that it has"

            isPacked ->
                "connect: the native library $file could not be unpacked or loaded ($cause); if the folder for " +
                    "temporary files cannot be written to, or nothing may be executed from it (noexec), name another " +
                    "one with -Djna.tmpdir=FOLDER; if the library has a jar of its own, both jars are of one version"

            platform in CLASSIFIERS ->
                "connect: the native library for $platform is not on the class path ($file is missing); add the " +
                    "dependency io.github.steadlock:steadlock once more with the classifier " +
                    "${CLASSIFIERS[platform]}, or take the one with the classifier all; or name the library's folder " +
                    "with -Djna.library.path=FOLDER"

            else ->
                "connect: there is no native library for $platform in the jar ($file is missing); take a jar " +
                    "that was built on this platform, or name the library's folder with -Djna.library.path=FOLDER"
        }
    }

    companion object {
        /** The limit for the length of the chain of causes, which may be a circle. */
        private const val MOST_CAUSES = 20

        /** Maps JNA's names of platforms to the classifiers of the published jars. */
        private val CLASSIFIERS = mapOf("linux-x86-64" to "linux-x86_64", "linux-aarch64" to "linux-aarch64")

        /**
         * Returns whether the process runs on musl. JNA's name of the platform does not include the C library, so this
         * function looks at the files that are mapped into the process.
         */
        fun isMusl(mapped: Path = Path.of("/proc/self/maps")): Boolean =
            runCatching {
                Files.lines(mapped).use { lines ->
                    lines.anyMatch { "/ld-musl-" in it }
                }
            }.getOrDefault(false)
    }
}
