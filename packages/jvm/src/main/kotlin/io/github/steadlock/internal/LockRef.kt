package io.github.steadlock.internal

import io.github.steadlock.NamedReadWriteLock
import io.github.steadlock.NamedSemaphore
import io.github.steadlock.SteadlockClient
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.nio.CharBuffer
import java.nio.charset.CharacterCodingException

/** The kinds of lock, in the order of the core. [word] is the core's name for the kind. */
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

    /** [SteadlockClient.once] */
    ONCE("once"),

    /** [SteadlockClient.leader] */
    LEADER("leader"),
    ;

    /** Returns the reference to the lock [name] of this kind. [permits] and [limit] are those of a semaphore. */
    fun ref(name: String, permits: Int = 0, limit: Int = 0): LockRef = LockRef.single(this, name, permits, limit)
}

/**
 * A reference to a lock, as the native part reads it. The core checks the reference at each use. Two references are
 * equal if their [bytes] are.
 *
 * @property kind the core's name for the kind
 * @property name the lock's name; for a composite lock, the names of its members, separated by commas
 * @property names the names of the members, or the lock's own name
 * @property bytes the lock as the native part reads it; `bindings/jvm/src/wire.rs` describes the format
 */
internal class LockRef private constructor(
    val kind: String,
    val name: String,
    val names: List<String>,
    val bytes: ByteArray,
) {
    /** The group of the lock in the metrics of its client; null until it is looked up. */
    @Volatile
    var group: String? = null

    /**
     * Returns whether the two locks may have a name in common. A quick check that saves most calls to the core, which
     * knows exactly.
     */
    fun mayShareNameWith(other: LockRef): Boolean = name == other.name || kind == SEVERAL || other.kind == SEVERAL

    override fun equals(other: Any?): Boolean = other is LockRef && bytes.contentEquals(other.bytes)

    override fun hashCode(): Int = bytes.contentHashCode()

    companion object {
        private const val SEVERAL = "multi_lock"

        /** The first byte of a composite lock. */
        private const val COMPOSITE: Byte = -1

        fun single(kind: Kind, name: String, permits: Int, limit: Int): LockRef {
            val text = encode(name)
            val bytes =
                buffer(1 + 3 * Int.SIZE_BYTES + text.size)
                    .put(kind.ordinal.toByte())
                    .putInt(permits)
                    .putInt(limit)
                    .putInt(text.size)
                    .put(text)
            return LockRef(kind.word, name, listOf(name), bytes.array())
        }

        /** Returns the reference to a composite lock. */
        fun several(refs: List<LockRef>): LockRef {
            val bytes = buffer(1 + Int.SIZE_BYTES + refs.sumOf { it.bytes.size }).put(COMPOSITE).putInt(refs.size)
            refs.forEach { bytes.put(it.bytes) }
            val name = refs.joinToString(", ", transform = LockRef::name)
            return LockRef(SEVERAL, name, refs.flatMap(LockRef::names), bytes.array())
        }

        private fun buffer(size: Int) = ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN)

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
