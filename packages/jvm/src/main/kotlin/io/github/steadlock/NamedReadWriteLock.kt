package io.github.steadlock

import io.github.steadlock.internal.displayName
import java.util.concurrent.locks.ReadWriteLock

/**
 * Two locks of one name: many owners can hold the read side, or one owner the write side.
 *
 * A waiting writer keeps new readers out for two seconds at a time, so neither side starves as long as each read takes
 * less than two seconds. A thread that holds the write side may acquire the read side inside it, and keeps the read
 * side when it releases the write side. Acquiring the write side inside the read side throws
 * [InvalidArgumentException], because the thread would wait for itself.
 *
 * Each side is an ordinary lock, except that leases of the read side have no token.
 *
 * ```java
 * var catalogue = client.readWriteLock("catalogue");
 * var price = catalogue.readLock().withLock(lease -> read());
 * ```
 */
public class NamedReadWriteLock internal constructor(
    /** The side that many owners can hold at once. In Java: [readLock]. */
    @get:JvmSynthetic
    public val read: NamedLock,
    /** The side that one owner holds alone. In Java: [writeLock]. */
    @get:JvmSynthetic
    public val write: NamedLock,
) : ReadWriteLock {
    /** The name under which other programs know this lock. */
    public val name: String
        get() = write.name

    /** Returns the side that many owners can hold at once. */
    override fun readLock(): NamedLock = read

    /** Returns the side that one owner holds alone. */
    override fun writeLock(): NamedLock = write

    override fun toString(): String = "NamedReadWriteLock(name=${displayName(name)})"
}
