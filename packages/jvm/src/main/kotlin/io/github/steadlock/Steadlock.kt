package io.github.steadlock

/** Where clients come from. */
public object Steadlock {
    /**
     * Connects to the server of the environment variable `STEADLOCK_URL`, with all defaults.
     *
     * @throws MisconfiguredException if the variable is not set, and as the other [connect] does
     */
    @JvmStatic
    public fun connect(): SteadlockClient = builder().connect()

    /**
     * Connects, with all defaults.
     *
     * @param url `redis://[user:password@]host[:port][/db]`, `redis+sentinel://host,host/service`,
     * `redis+cluster://host,host`, each also as `rediss…` (TLS); `redis+unix:///path`, `memory://` (a store of this
     * client alone) or `memory://name` (shared in the process); `valkey` may stand for `redis`
     * @throws InvalidArgumentException if the URL is malformed
     * @throws MisconfiguredException if the server refuses the password or cannot carry locks
     * @throws UnavailableException if the server cannot be reached within 5 s
     */
    @JvmStatic
    public fun connect(url: String): SteadlockClient = builder().url(url).connect()

    /** Connects to several independent primaries, with all defaults. See the other [redlock]. */
    @JvmStatic
    public fun redlock(vararg urls: String): SteadlockClient = redlock(urls.asList())

    /**
     * Connects to several independent primaries, with all defaults; [SteadlockBuilder.primaries] is for options. Every
     * lock of this client is a RedLock: a majority of the primaries holds it, so that it goes on while a minority is
     * down.
     *
     * [SteadlockClient.lock] and [SteadlockClient.mutex] give it, and with one name both are the same lock, in the
     * records of other RedLock libraries. Other kinds are refused with [InvalidArgumentException] when they are taken.
     * It is not reentrant: a thread that holds it and would wait for it again is refused at once with
     * [InvalidArgumentException], and so is a coroutine's [withLock] inside another one of the name. Its leases have no fencing token.
     * Taking it throws [UnavailableException] while no majority can be reached, at the end of the wait at the latest.
     *
     * Two holders never overlap as long as a primary that restarts without its data stays away for the longest lease.
     *
     * @param urls 3 to 15 of them, an odd number, each as for [connect] but a `memory://` with a name; none a replica
     * of another. `STEADLOCK_URL` does not count
     * @throws InvalidArgumentException if the number of URLs is even or out of range, or a URL is malformed
     * @throws MisconfiguredException if a primary is listed twice, or as [connect] does
     * @throws UnavailableException if no majority of them can be reached within 5 s
     */
    @JvmStatic
    public fun redlock(urls: Collection<String>): SteadlockClient = builder().primaries(urls).connect()

    /** Connects with options. */
    @JvmStatic
    public fun builder(): SteadlockBuilder = SteadlockBuilder()
}
