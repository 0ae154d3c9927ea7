package io.github.steadlock

/** The entry point: makes clients. */
public object Steadlock {
    /**
     * Connects to the server that the environment variable `STEADLOCK_URL` names, with all defaults.
     *
     * @throws MisconfiguredException if the variable is not set, and in the cases of the other [connect]
     */
    @JvmStatic
    public fun connect(): SteadlockClient = builder().connect()

    /**
     * Connects to the server of a URL, with all defaults.
     *
     * @param url `redis://[user:password@]host[:port][/db]`, `redis+sentinel://host,host/service`,
     * `redis+cluster://host,host`, each also as `rediss…` (TLS); `redis+unix:///path`, `memory://` (a store of this
     * client alone) or `memory://name` (shared in the process); `valkey` may stand for `redis`
     * @throws InvalidArgumentException if the URL is malformed
     * @throws MisconfiguredException if the server refuses the password or is not suited for locks
     * @throws UnavailableException if the server cannot be reached within 5 s
     */
    @JvmStatic
    public fun connect(url: String): SteadlockClient = builder().url(url).connect()

    /** Connects to several independent primaries, with all defaults. See the other [redlock]. */
    @JvmStatic
    public fun redlock(vararg urls: String): SteadlockClient = redlock(urls.asList())

    /**
     * Connects to several independent primaries, with all defaults; for options use [SteadlockBuilder.primaries]. Every
     * lock of this client is a RedLock: a majority of the primaries grants it. Locks work while a minority of the
     * primaries is down.
     *
     * [SteadlockClient.lock] and [SteadlockClient.mutex] both return such a lock. With one name they are the same lock,
     * and its records have the format of other RedLock libraries. Acquiring another kind of lock throws
     * [InvalidArgumentException]. The lock is not reentrant: a thread that holds it and would wait for it again gets
     * [InvalidArgumentException] at once, and so does a coroutine's [withLock] inside another one of the same name.
     * Leases have no fencing token. Acquiring the lock throws [UnavailableException] while no majority can be reached,
     * at the end of the wait at the latest.
     *
     * Two owners never hold the lock at once, provided that a primary that restarts without its data stays away for the
     * longest lease.
     *
     * @param urls an odd number of URLs, 3 to 15, each as for [connect], but with a name if it is `memory://`; no
     * server may be a replica of another. `STEADLOCK_URL` is ignored
     * @throws InvalidArgumentException if the number of URLs is even or out of range, or a URL is malformed
     * @throws MisconfiguredException if a primary is listed twice, and in the cases of [connect]
     * @throws UnavailableException if no majority of them can be reached within 5 s
     */
    @JvmStatic
    public fun redlock(urls: Collection<String>): SteadlockClient = builder().primaries(urls).connect()

    /** Returns a builder, to connect with options. */
    @JvmStatic
    public fun builder(): SteadlockBuilder = SteadlockBuilder()
}
