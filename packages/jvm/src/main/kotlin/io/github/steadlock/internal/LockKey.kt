package io.github.steadlock.internal

import io.github.steadlock.NamedReadWriteLock
import io.github.steadlock.NamedSemaphore
import io.github.steadlock.SteadlockClient
import java.nio.CharBuffer
import java.nio.charset.CharacterCodingException

/** The kinds of lock, by the core's [word] for each. */
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

    /** The lock [name] of this kind; [numbers] are the wanted permits and the limit of a semaphore. */
    fun key(name: String, vararg numbers: Int): LockKey =
        LockKey(word, name, (listOf(word) + numbers.map(Int::toString) + name).joinToString(NUL))
}

/**
 * Which lock, as the native part takes it. The core checks it when it is used.
 *
 * @property kind the core's word for its kind
 * @property name for people
 * @property address for the core, whose `address.rs` describes it
 * @property names of its members, or its own
 */
internal class LockKey(
    val kind: String,
    val name: String,
    val address: String,
    val names: List<String> = listOf(name),
) {
    val bytes: ByteArray = encode(address)

    /** The label of its group in the metrics of its client, once that was asked for. */
    @Volatile
    var group: String? = null

    /** Whether the two may have to do with each other. The core knows; asking it takes longer. */
    fun mayShareNameWith(other: LockKey): Boolean = name == other.name || kind == SEVERAL || other.kind == SEVERAL

    companion object {
        private const val SEVERAL = "multi_lock"

        /** Several locks as one. */
        fun several(keys: List<LockKey>): LockKey =
            LockKey(
                SEVERAL,
                keys.joinToString(", ", transform = LockKey::name),
                keys.joinToString("", "multi$NUL") { "${it.bytes.size}$NUL${it.address}" },
                keys.flatMap(LockKey::names),
            )

        /** `String.toByteArray` would turn half a surrogate pair into `?`, and so into another lock's name. */
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
