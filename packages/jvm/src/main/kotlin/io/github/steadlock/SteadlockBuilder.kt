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

/** The options of a client. Values are checked by [connect]. */
public class SteadlockBuilder internal constructor() {
    private var options = ClientOptions(emptyMap())
    private var server: ServerParts? = null
    private var executor: Executor? = null

    /** The server; see [Steadlock.connect]. Default: the environment variable `STEADLOCK_URL`. */
    public fun url(url: String): SteadlockBuilder = set("url", url)

    /**
     * The server's host, in place of [url]; with [port], [username], [password] and [database] beside it, as they are,
     * whatever characters they hold. For TLS, give a [url]. Default: `localhost`, if one of the others is given.
     */
    public fun host(host: String): SteadlockBuilder = setServer { copy(host = host) }

    /** The server's port, 1 to 65,535; see [host]. Default: 6379. */
    public fun port(port: Int): SteadlockBuilder = setServer { copy(port = port) }

    /** The user to log in as, with a [password]; see [host]. Default: the server's default user. */
    public fun username(username: String): SteadlockBuilder = setServer { copy(username = username) }

    /** The password to log in with; see [host]. No message shows it. Default: none. */
    public fun password(password: String): SteadlockBuilder = setServer { copy(password = password) }

    /** The number of the server's database; see [host]. Default: 0. */
    public fun database(database: Int): SteadlockBuilder = setServer { copy(database = database) }

    /** Several independent primaries in place of [url]; see [Steadlock.redlock]. Default: none. */
    public fun primaries(vararg urls: String): SteadlockBuilder = primaries(urls.asList())

    /** Several independent primaries in place of [url]; see [Steadlock.redlock]. Default: none. */
    public fun primaries(urls: Collection<String>): SteadlockBuilder = set("primaries", urls.toList())

    /** The lease of locks that are given none, 300 ms to 24 h; renewed every third of it. Default: 30 s. */
    public fun lease(lease: Duration): SteadlockBuilder = set("lease_ms", lease.millis())

    /** How long the server, or each primary, may take to answer. Default: 3 s. */
    public fun commandTimeout(timeout: Duration): SteadlockBuilder = set("command_timeout_ms", timeout.millis())

    /** How long connecting may take. Default: 5 s. */
    public fun connectTimeout(timeout: Duration): SteadlockBuilder = set("connect_timeout_ms", timeout.millis())

    /** A waiter asks the server again after a random time between these. Default: 500 ms and 750 ms. */
    public fun retryInterval(min: Duration, max: Duration): SteadlockBuilder =
        set("retry_interval_ms", min.millis() to max.millis())

    /** Put before each lock's name. Default: nothing. */
    public fun keyPrefix(prefix: String): SteadlockBuilder = set("key_prefix", prefix)

    /** A PEM file of the authorities to trust for `rediss://`, instead of the system's. Default: the system's. */
    public fun tlsCaFile(file: Path): SteadlockBuilder = set("tls_ca_file", file.toString())

    /**
     * A PEM file of this client's certificate, for a server that demands one; the certificates that lead to its
     * authority may follow. Together with [tlsKeyFile], and with `rediss://`. Read again for later connections, so that
     * it can be replaced while the program runs. Default: none.
     */
    public fun tlsCertFile(file: Path): SteadlockBuilder = set("tls_cert_file", file.toString())

    /** A PEM file of the private key of that certificate, not encrypted. Default: none. */
    public fun tlsKeyFile(file: Path): SteadlockBuilder = set("tls_key_file", file.toString())

    /**
     * What the certificates of all servers are to be for, those of the URL too, instead of the host that is connected
     * to: for nodes and sentinels that announce IP addresses which no certificate names. A host's name or an IP
     * address, without a port; with `rediss://`. Default: each server's own host.
     */
    public fun tlsServerName(name: String): SteadlockBuilder = set("tls_server_name", name)

    /**
     * Where the servers are reached that a cluster's nodes and sentinels announce, as behind NAT or out of a Kubernetes
     * cluster: from `10.0.0.1:6379` to `localhost:7001`, with a port on both sides or on neither, an IPv6 address in
     * brackets. The addresses of the URL are reached as they stand there. Default: as they are announced.
     */
    public fun addressMap(addresses: Map<String, String>): SteadlockBuilder =
        set("address_map", addresses.toMap())

    /**
     * Connects at the first use, for a client that is made before its server is up. A use then waits for the connection
     * as it does in an outage, within its own wait; a [MisconfiguredException] that [connect] would throw comes from
     * the first use and each later one. Default: [connect] connects.
     */
    public fun lazy(): SteadlockBuilder = set("lazy", true)

    /**
     * What becomes of an acquisition while its server is unavailable, as the circuit breaker of that server says. A
     * lock may have it otherwise, by [LockOptions.onUnavailable]. Switches the circuit breaker on, which [breaker]
     * describes. Default: [OnUnavailable.FAIL].
     *
     * [OnUnavailable.LOCAL] is for `lock`, `mutex`, `fairLock` and several of these as one; acquisitions of the others
     * fail. With several [primaries], [connect] refuses it with [InvalidArgumentException].
     */
    public fun onUnavailable(
        onUnavailable: OnUnavailable,
    ): SteadlockBuilder = set("on_unavailable", onUnavailable.word)

    /**
     * Switches the circuit breakers on, one for each primary. Calls without an answer in time count as failures,
     * connections that are lost or cannot be made, and errors that say that the server cannot serve. While a breaker is
     * open, an acquisition is not attempted: it fails at once with [UnavailableException], or as [onUnavailable] says.
     * Releases and renewals go on. Every [pause], and when a connection opens, the server is asked whether it serves;
     * any answer of it closes the breaker. Default: no circuit breaker; where [onUnavailable] alone switches it on, 5
     * failures and 10 s. [connect] throws [InvalidArgumentException] for values out of their ranges.
     *
     * @param failures so many failures in a row open it, 1 to 1,000,000
     * @param pause the time between two probes while it is open, 1 ms to 24 h
     */
    public fun breaker(failures: Int, pause: Duration): SteadlockBuilder =
        set("breaker_failures", failures.toDouble()).set("breaker_pause_ms", pause.millis())

    /**
     * Counts acquisitions, waits, holds, renewals, losses and reconnects, for [SteadlockClient.metrics]. By group of
     * locks, which is what stands before the first `:` of a name; never by name. Default: off, and then nothing is
     * computed.
     */
    public fun metrics(): SteadlockBuilder = set("metrics", true)

    /**
     * How many groups the metrics tell apart, 1 to 10,000; further ones count as `other`. With [metrics].
     * Default: 100.
     */
    public fun metricsGroups(most: Int): SteadlockBuilder = set("metrics_groups", most.toDouble())

    /**
     * Fair locks, up to 100, whose queues on the server are counted: callers of all clients, asked for every 15 s. With
     * [metrics], and not with several [primaries]. Default: none.
     */
    public fun metricsQueues(vararg names: String): SteadlockBuilder = set("metrics_queues", names.toList())

    /**
     * Whether the client tells its servers which program on which machine it is, see [ClientInfo], and asks them the
     * same of others, so that [Holder.client], [LockTimeoutException] and the tools name programs. One call at the
     * first use and one in 30 s while it is in use, and one in 60 s about each other client that was found to hold a
     * lock. What it said is gone 90 s later; anybody who may read the server's keys can read it. Default: true.
     */
    public fun clientInfo(isOn: Boolean): SteadlockBuilder = set("client_info", isOn)

    /**
     * What else the client says of itself, as `"blue"` or `"order-service eu-1"`: up to 200 characters of one line. For
     * another one, and for one with [clientInfo] off, [connect] throws [InvalidArgumentException]. Default: nothing.
     */
    public fun clientLabel(label: String): SteadlockBuilder = set("client_label", label)

    /**
     * Runs what [Lease.onLost] and [NamedLock.lockAsync] call. Default: daemon threads of the client, up to 64
     * beside those that wait for a call of the client.
     */
    public fun callbackExecutor(executor: Executor): SteadlockBuilder {
        this.executor = executor
        return this
    }

    /**
     * Connects. Blocks until connected or failed; an interrupt is kept for later. A [lazy] client is given at once.
     *
     * @throws InvalidArgumentException if an option is out of its range, a URL is malformed, the number of primaries
     * is even, or the server is named twice: by two of [url], [host] and what belongs to it, and [primaries]
     * @throws MisconfiguredException if there is no URL, a primary is listed twice, a server refuses the password or
     * cannot carry locks, or one side does not accept the other's certificate
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
