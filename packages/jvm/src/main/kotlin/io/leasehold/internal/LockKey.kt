package io.leasehold.internal

import io.leasehold.DistributedReadWriteLock
import io.leasehold.DistributedSemaphore
import io.leasehold.LeaseholdClient
import java.nio.CharBuffer
import java.nio.charset.CharacterCodingException

/**
 * The kinds of lock, by the core's [word] for each.
 *
 * @property record what kinds have in common if a holder of the one keeps out the other; the core knows the rule, and
 * this is here for the mistake that [LockKey.meets] finds. Null if holding it twice is no mistake
 */
internal enum class Kind(val word: String, val record: String?) {
    /** [LeaseholdClient.lock] */
    LOCK("lock", "lock"),

    /** [LeaseholdClient.mutex] */
    MUTEX("mutex", "mutex"),

    /** [LeaseholdClient.fairLock] */
    FAIR("fair_lock", "lock"),

    /** [DistributedReadWriteLock.read] */
    READ("read_lock", "read_write"),

    /** [DistributedReadWriteLock.write] */
    WRITE("write_lock", "read_write"),

    /** [DistributedSemaphore.permits] */
    SEMAPHORE("semaphore", null),
    ;

    /** The lock [name] of this kind; [numbers] are the wanted permits and the limit of a semaphore. */
    fun key(name: String, vararg numbers: Int): LockKey =
        LockKey(name, (listOf(word) + numbers.map(Int::toString) + name).joinToString(NUL), listOf(this to name))
}

/**
 * Which lock, as the native part takes it. The core checks it when it is used.
 *
 * @property name for people
 * @property address for the core, whose `address.rs` describes it
 */
internal class LockKey(val name: String, val address: String, private val parts: List<Pair<Kind, String>>) {
    val bytes: ByteArray = encode(address)

    /**
     * Whether a holder of this would wait for itself if it asked for [other]. On one server the core refuses a
     * [Kind.LOCK] inside a [Kind.MUTEX] of its name, and the other way round; of a RedLock both are the same lock.
     */
    fun meets(other: LockKey, isRedlock: Boolean): Boolean {
        val records = records(isRedlock)
        return other.records(isRedlock).any(records::contains)
    }

    private fun records(isRedlock: Boolean): List<Pair<String, String>> =
        parts.mapNotNull { (kind, name) ->
            val shared = if (isRedlock && kind == Kind.LOCK) Kind.MUTEX else kind
            shared.record?.to(name)
        }

    companion object {
        /** Several locks as one. */
        fun several(keys: List<LockKey>): LockKey =
            LockKey(
                keys.joinToString(", ", transform = LockKey::name),
                keys.joinToString("", "multi$NUL") { "${it.bytes.size}$NUL${it.address}" },
                keys.flatMap(LockKey::parts),
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
