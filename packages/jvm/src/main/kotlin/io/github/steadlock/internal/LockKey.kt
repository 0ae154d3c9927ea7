package io.github.steadlock.internal

import io.github.steadlock.NamedReadWriteLock
import io.github.steadlock.NamedSemaphore
import io.github.steadlock.SteadlockClient
import java.nio.CharBuffer
import java.nio.charset.CharacterCodingException

/** The kinds of lock. [word] is the core's name for the kind. */
internal enum class Kind(val word: String) {
    /** [SteadlockClient.lock] */
    LOCK("lock"),

    /** [SteadlockClient.mutex] */
    MUTEX("mutex"),

    /** [SteadlockClient.fairLock] */
    FAIR("fair_lock"),

    /** [NamedReadWriteLock.read] */
    READ("read_lock"),

    /** [NamedReadWriteLock.write] */
    WRITE("write_lock"),

    /** [NamedSemaphore.permits] */
    SEMAPHORE("semaphore"),
    ;

    /**
     * Returns the key of the lock [name] of this kind. [numbers] are the requested permits and the limit of a
     * semaphore.
     */
    fun key(name: String, vararg numbers: Int): LockKey =
        LockKey(word, name, (listOf(word) + numbers.map(Int::toString) + name).joinToString(NUL))
}

/**
 * The key that identifies a lock for the native part. The core checks the key when it is used.
 *
 * @property kind the core's name for the kind
 * @property name the name for people
 * @property address the address for the core; its format is described in the core's `host/check.rs`
 * @property names the names of the members, or the lock's own name
 */
internal class LockKey(
    val kind: String,
    val name: String,
    val address: String,
    val names: List<String> = listOf(name),
) {
    val bytes: ByteArray = encode(address)

    /** The group of the lock in the metrics of its client; null until it is looked up. */
    @Volatile
    var group: String? = null

    /**
     * Returns whether the two locks may have a name in common. A quick check that saves most calls to the core, which
     * knows exactly.
     */
    fun mayShareNameWith(other: LockKey): Boolean = name == other.name || kind == SEVERAL || other.kind == SEVERAL

    companion object {
        private const val SEVERAL = "multi_lock"

        /** Returns the key of a composite lock. */
        fun several(keys: List<LockKey>): LockKey =
            LockKey(
                SEVERAL,
                keys.joinToString(", ", transform = LockKey::name),
                keys.joinToString("", "multi$NUL") { "${it.bytes.size}$NUL${it.address}" },
                keys.flatMap(LockKey::names),
            )

        /**
         * Encodes the text as UTF-8. `String.toByteArray` would turn half a surrogate pair into `?`, and so into the
         * name of another lock.
         */
        private fun encode(text: String): ByteArray {
            val encoded =
                try {
                    Charsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text))
                } catch (_: CharacterCodingException) {
                    val message = "acquire: the name holds half a surrogate pair and has no UTF-8 form"
                    throw invalidArgument(message, null, "acquire")
                }
            return ByteArray(encoded.remaining()).also(encoded::get)
        }
    }
}

private const val NUL = "\u0000"
