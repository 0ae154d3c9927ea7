package io.github.steadlock

import io.github.steadlock.internal.shown
import java.util.concurrent.locks.ReadWriteLock

/**
 * Two locks of one name: many may hold the read side, or one the write side.
 *
 * A waiting writer keeps new readers out, for two seconds at a time, so that neither side starves. A thread that holds
 * the write side may take the read side inside it, and keeps that when it gives the write side back. The other way
 * round is refused with [InvalidArgumentException], as it would wait for itself.
 *
 * Each side is a lock like any other; leases of the read side have no token.
 *
 * ```java
 * var catalogue = client.readWriteLock("catalogue");
 * var price = catalogue.readLock().withLock(lease -> read());
 * ```
 */
public class NamedReadWriteLock internal constructor(
    /** The side that many may hold. From Java: [readLock]. */
    @get:JvmSynthetic
    public val read: NamedLock,
    /** The side that one holds alone. From Java: [writeLock]. */
    @get:JvmSynthetic
    public val write: NamedLock,
) : ReadWriteLock {
    /** The name that other programs know this lock by. */
    public val name: String
        get() = write.name

    /** The side that many may hold. */
    override fun readLock(): NamedLock = read

    /** The side that one holds alone. */
    override fun writeLock(): NamedLock = write

    override fun toString(): String = "NamedReadWriteLock(name=${shown(name)})"
}
