package io.github.steadlock

import io.github.steadlock.internal.Callbacks
import io.github.steadlock.internal.ClientOptions
import io.github.steadlock.internal.Engine
import io.github.steadlock.internal.ServerParts
import io.github.steadlock.internal.at
import io.github.steadlock.internal.millis
import java.nio.file.Path
import java.time.Duration
import java.util.concurrent.Executor

/** The options of a client. [connect] checks the values. */
public class SteadlockBuilder internal constructor() {
    private var options = ClientOptions(emptyMap())
    private var server: ServerParts? = null
    private var executor: Executor? = null

    /** Sets the URL of the server; see [Steadlock.connect]. Default: the environment variable `STEADLOCK_URL`. */
    public fun url(url: String): SteadlockBuilder = set("url", url)

    /**
     * Sets the host of the server, instead of a [url]. [port], [username], [password] and [database] belong to it. None
     * of these needs escapes: a user or a password can have any characters. For TLS, set a [url]. Default: `localhost`,
     * if one of the others is set.
     */
    public fun host(host: String): SteadlockBuilder = setServer { copy(host = host) }

    /** Sets the port of the server, 1 to 65,535; see [host]. Default: 6379. */
    public fun port(port: Int): SteadlockBuilder = setServer { copy(port = port) }

    /** Sets the user for the login; needs a [password]; see [host]. Default: the server's default user. */
    public fun username(username: String): SteadlockBuilder = setServer { copy(username = username) }

    /** Sets the password for the login; see [host]. No message shows it. Default: none. */
    public fun password(password: String): SteadlockBuilder = setServer { copy(password = password) }

    /** Sets the number of the database on the server; see [host]. Default: 0. */
    public fun database(database: Int): SteadlockBuilder = setServer { copy(database = database) }

    /** Sets several independent primaries, instead of a [url]; see [Steadlock.redlock]. Default: none. */
    public fun primaries(vararg urls: String): SteadlockBuilder = primaries(urls.asList())

    /** Sets several independent primaries, instead of a [url]; see [Steadlock.redlock]. Default: none. */
    public fun primaries(urls: Collection<String>): SteadlockBuilder = set("primaries", urls.toList())

    /**
     * Sets the lease of locks without a lease of their own, 300 ms to 24 h. The client renews it each time a third has
     * passed. Default: 30 s.
     */
    public fun lease(lease: Duration): SteadlockBuilder = set("lease_ms", lease.millis())

    /**
     * Sets the command timeout: how long a reply of the server may take. For a RedLock, each primary has less time to
     * grant the lock: a tenth of the lease, 50 to 500 ms. Default: 3 s.
     */
    public fun commandTimeout(timeout: Duration): SteadlockBuilder = set("command_timeout_ms", timeout.millis())

    /** Sets how long connecting may take. Default: 5 s. */
    public fun connectTimeout(timeout: Duration): SteadlockBuilder = set("connect_timeout_ms", timeout.millis())

    /** Sets the time between two polls of a waiter: random, from [min] to [max]. Default: 500 ms and 750 ms. */
    public fun retryInterval(min: Duration, max: Duration): SteadlockBuilder =
        set("retry_interval_ms", min.millis() to max.millis())

    /** Sets a prefix for the name of each lock. Default: nothing. */
    public fun keyPrefix(prefix: String): SteadlockBuilder = set("key_prefix", prefix)

    /** Sets a PEM file of the authorities to trust for `rediss://`, instead of the system's. Default: the system's. */
    public fun tlsCaFile(file: Path): SteadlockBuilder = set("tls_ca_file", file.toString())

    /**
     * Sets a PEM file of this client's certificate, for a server that demands one. The certificates that lead to its
     * authority can follow in the file. Needs [tlsKeyFile] and `rediss://`. The client reads the file again for later
     * connections, so the file can be replaced while the program runs. Default: none.
     */
    public fun tlsCertFile(file: Path): SteadlockBuilder = set("tls_cert_file", file.toString())

    /** Sets a PEM file of the private key for the certificate of [tlsCertFile], not encrypted. Default: none. */
    public fun tlsKeyFile(file: Path): SteadlockBuilder = set("tls_key_file", file.toString())

    /**
     * Sets the host name that the certificate of every server must have, also of a server that the URL names. Without
     * this option, a certificate must have the host that the client connects to. Set this option if nodes and sentinels
     * announce IP addresses that no certificate names. [name] is a host name or an IP address, without a port. Needs
     * `rediss://`. Default: each server's own host.
     */
    public fun tlsServerName(name: String): SteadlockBuilder = set("tls_server_name", name)

    /**
     * Maps the addresses that cluster nodes and sentinels announce to addresses that the program can reach, for example
     * behind NAT or from outside a Kubernetes cluster: from `10.0.0.1:6379` to `localhost:7001`. Give a port on both
     * sides or on neither, and write an IPv6 address in brackets. The addresses of the URL are not mapped. Default: the
     * addresses as announced.
     */
    public fun addressMap(addresses: Map<String, String>): SteadlockBuilder =
        set("address_map", addresses.toMap())

    /**
     * Makes the client connect at its first use, for a client that is made before its server is up. A call then waits
     * for the connection within its own wait, as in an outage. The first call and each later one throw a
     * [MisconfiguredException] that [connect] would throw. Default: [connect] connects.
     */
    public fun lazy(): SteadlockBuilder = set("lazy", true)

    /**
     * Sets how an acquisition ends while the circuit breaker of its server is open. [LockOptions.onUnavailable]
     * overrides this setting for a lock. Switches the circuit breaker on, which [breaker] describes. Default:
     * [OnUnavailable.FAIL].
     *
     * [OnUnavailable.LOCAL] works for `lock`, `mutex`, `fairLock` and composite locks of these; acquisitions of other
     * kinds fail. With several [primaries], [connect] throws [InvalidArgumentException] for this policy.
     */
    public fun onUnavailable(
        onUnavailable: OnUnavailable,
    ): SteadlockBuilder = set("on_unavailable", onUnavailable.word)

    /**
     * Switches the circuit breakers on, one for each primary. These count as failures: calls without a reply in time,
     * connections that are lost or cannot be made, and errors by which the server reports that it cannot serve. While a
     * breaker is open, no acquisition is sent: each fails at once with [UnavailableException], or ends as
     * [onUnavailable] sets. Releases and renewals go on. Every [pause], and when a connection opens, the client sends a
     * probe. Any reply that is not such an error closes the breaker. Default: no circuit breaker; if only
     * [onUnavailable] switches it on, 5 failures and 10 s. [connect] throws [InvalidArgumentException] for values out
     * of their ranges.
     *
     * @param failures the number of failures in a row that opens the breaker, 1 to 1,000,000
     * @param pause the time between two probes while the breaker is open, 1 ms to 24 h
     */
    public fun breaker(failures: Int, pause: Duration): SteadlockBuilder =
        set("breaker_failures", failures.toDouble()).set("breaker_pause_ms", pause.millis())

    /**
     * Counts acquisitions, waits, holds, renewals, losses and reconnects, for [SteadlockClient.metrics]. The metrics
     * have a label for the group of a lock, never for its name. The group is the part of the name before the first `:`,
     * or `none` without a `:`. Default: off, and then nothing is computed.
     */
    public fun metrics(): SteadlockBuilder = set("metrics", true)

    /**
     * Sets how many groups the metrics tell apart, 1 to 10,000; further groups count as `other`. Needs [metrics].
     * Default: 100.
     */
    public fun metricsGroups(most: Int): SteadlockBuilder = set("metrics_groups", most.toDouble())

    /**
     * Sets fair locks, up to 100, whose wait queues on the server are counted. A queue has the waiters of all clients;
     * the client asks the server for it every 15 s. Needs [metrics]; not for several [primaries]. Default: none.
     */
    public fun metricsQueues(vararg names: String): SteadlockBuilder = set("metrics_queues", names.toList())

    /**
     * Sets whether the client publishes its [ClientInfo] on its servers, and reads that of other clients. By this
     * information, [Holder.client], [LockTimeoutException] and the tools can name programs. Costs one call at the first
     * use and one every 30 s while the client is in use, and one every 60 s for each other client that was found to
     * hold a lock. The server keeps the information for 90 s. Anyone with read access to the server's keys can read it.
     * Default: true.
     */
    public fun clientInfo(isOn: Boolean): SteadlockBuilder = set("client_info", isOn)

    /**
     * Sets a label that the client publishes with its [clientInfo], such as `"blue"` or `"order-service eu-1"`: one
     * line of up to 200 characters. [connect] throws [InvalidArgumentException] for any other label, and for every
     * label if [clientInfo] is off. Default: nothing.
     */
    public fun clientLabel(label: String): SteadlockBuilder = set("client_label", label)

    /**
     * Sets the executor for the callbacks of [Lease.onLost] and [NamedLock.lockAsync]. Default: daemon threads of the
     * client, up to 64, not counting threads that wait for a call of the client.
     */
    public fun callbackExecutor(executor: Executor): SteadlockBuilder {
        this.executor = executor
        return this
    }

    /**
     * Connects. Blocks until the client is connected or has failed. An interrupt does not end the wait: the thread's
     * interrupt status is set again afterwards. Returns a [lazy] client at once.
     *
     * @throws InvalidArgumentException if an option is out of its range, a URL is malformed, the number of primaries is
     * even or out of range, or the server is named in two ways: by more than one of [url], [primaries], and [host] with
     * the options that belong to it
     * @throws MisconfiguredException if there is no URL, a primary is listed twice, a server refuses the password or is
     * not suited for locks, or one side does not accept the other's certificate
     * @throws UnavailableException if the server, or a majority of the primaries, cannot be reached within the connect
     * timeout
     */
    public fun connect(): SteadlockClient =
        SteadlockClient(Engine.connect(options.at(server), Callbacks(executor)))

    private fun set(option: String, value: Any): SteadlockBuilder {
        options = options.with(option, value)
        return this
    }

    private inline fun setServer(change: ServerParts.() -> ServerParts): SteadlockBuilder {
        server = (server ?: ServerParts()).change()
        return this
    }
}
