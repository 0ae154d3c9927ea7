package io.leasehold

/** Where clients come from. */
public object Leasehold {
    /**
     * Connects to the server of the environment variable `LEASEHOLD_URL`, with all defaults.
     *
     * @throws MisconfiguredException if the variable is not set, and as the other [connect] does
     */
    @JvmStatic
    public fun connect(): LeaseholdClient = builder().connect()

    /**
     * Connects, with all defaults.
     *
     * @param url `redis://[user:password@]host[:port][/db]`, `rediss://…` (TLS), `redis+unix:///path`, `memory://`
     * (a store of this client alone) or `memory://name` (shared in the process)
     * @throws InvalidArgumentException if the URL is malformed
     * @throws MisconfiguredException if the server refuses the password or cannot carry locks
     * @throws UnavailableException if the server cannot be reached within 5 s
     */
    @JvmStatic
    public fun connect(url: String): LeaseholdClient = builder().url(url).connect()

    /** Connects with options. */
    @JvmStatic
    public fun builder(): LeaseholdBuilder = LeaseholdBuilder()
}
