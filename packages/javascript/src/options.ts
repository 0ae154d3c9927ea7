/**
 * Where an announced `host:port` is reached, also as `host:port`; `null` or `undefined` for "as it is announced". Called
 * before each connection, like any callback: it should not take long, as connecting waits for it. If it throws or gives
 * no address, that try to connect fails.
 */
export type AddressFunction = (announced: string) => string | null | undefined;

/**
 * What becomes of an acquisition while the circuit breaker of its server is open.
 *
 * - `fail`: it fails at once with `UnavailableError`
 * - `local`: it is granted a lease that excludes others of this client alone, without a token: `lease.degraded` is true.
 *   For `lock`, `mutex`, `fairLock` and several of these as one; acquisitions of the others fail
 * - `skip`: it is not granted, and what the lock guards does not run: `tryLock()` and `tryAcquire()` give `null`,
 *   `using()` gives `undefined`, `lock()` and `acquire()` reject with an `UnavailableError` whose `skipped` is true
 */
export type OnUnavailable = 'fail' | 'local' | 'skip';

/** How a client works. What is left out has the default. */
export interface ConnectOptions {
  /**
   * The lease of locks that are given none, in milliseconds: 300 to 86,400,000, default 30,000. Renewed at a third of
   * it.
   */
  readonly leaseMs?: number | undefined;
  /**
   * Renews the leases of locks that are given none. False: they are fixed, unless the lock or the call says `renew`.
   * Default true, on WebAssembly false.
   */
  readonly renew?: boolean | undefined;
  /** How long one answer of the server may take, in milliseconds. Default 3,000. */
  readonly commandTimeoutMs?: number | undefined;
  /** How long connecting may take, in milliseconds. Default 5,000. */
  readonly connectTimeoutMs?: number | undefined;
  /** A waiter asks again after a random time between these two, in milliseconds. Default [500, 750]. */
  readonly retryIntervalMs?: readonly [min: number, max: number] | undefined;
  /** Put before every lock's name. Default none. */
  readonly keyPrefix?: string | undefined;
  /** A PEM file of the authorities to trust for `rediss://`, instead of the system's. Default the system's. */
  readonly tlsCaFile?: string | undefined;
  /**
   * A PEM file of this client's certificate, for a server that demands one; the certificates that lead to its
   * authority may follow. Together with `tlsKeyFile`. Default none.
   */
  readonly tlsCertFile?: string | undefined;
  /** A PEM file of the private key of that certificate, not encrypted. Default none. */
  readonly tlsKeyFile?: string | undefined;
  /**
   * What the certificates of all servers are to be for, those of the URL too, instead of the host that is connected
   * to: for nodes and sentinels that announce IP addresses which no certificate names. A host's name or an IP address,
   * without a port; with `rediss://`. Default each server's own host.
   */
  readonly tlsServerName?: string | undefined;
  /**
   * Where the servers are reached that a cluster's nodes and sentinels announce, as behind NAT or out of a Kubernetes
   * cluster: `{ '10.0.0.1:6379': 'localhost:7001' }`, with a port on both sides or on neither, and an IPv6 address in
   * brackets; or a function, see `AddressFunction`. The addresses of the URL are reached as they stand there. Default
   * as they are announced.
   */
  readonly addressMap?: Readonly<Record<string, string>> | ReadonlyMap<string, string> | AddressFunction | undefined;
  /**
   * Connects at the first use, for a client that is made before its server is up. A use then waits for the connection
   * as it does in an outage, within its own wait; what connecting can never succeed with (`MisconfiguredError`) comes
   * at the first use and each later one. Default false.
   */
  readonly lazy?: boolean | undefined;
  /**
   * What becomes of an acquisition while the circuit breaker of its server is open; each may have it otherwise. Switches
   * the circuit breakers on. `local` is refused with `InvalidArgumentError` by `redlock`. Default `fail`.
   */
  readonly onUnavailable?: OnUnavailable | undefined;
  /**
   * Switches the circuit breakers on, one for each primary: after so many failures in a row, 1 to 1,000,000, it opens.
   * Calls without an answer in time count, connections that are lost or cannot be made, and errors that say that the
   * server cannot serve. While it is open an acquisition is not attempted; releases and renewals go on. Default no
   * circuit breaker; 5 if `onUnavailable` or `breakerPauseMs` is given.
   */
  readonly breakerFailures?: number | undefined;
  /**
   * How long after one probe of a server the next comes while its circuit breaker is open, in milliseconds, above 0; any
   * answer closes it. Switches the circuit breakers on. Default 10,000.
   */
  readonly breakerPauseMs?: number | undefined;
  /**
   * Tells the servers which program on which machine this client is, see `ClientInfo`, so that `holder()`,
   * `LockTimeoutError` and the tools name programs, and asks them the same of others: one call at the first use and one
   * in 30 s while it is in use, and one in 60 s about each other client that was found to hold a lock. What it said is
   * gone 90 s later. Anybody who may read the server's keys can read it. Default true, on WebAssembly false.
   */
  readonly clientInfo?: boolean | undefined;
  /**
   * What else the client says of itself, as `'blue'` or `'order-service eu-1'`: up to 200 characters of one line, without
   * control characters. `InvalidArgumentError` for another, and for one with `clientInfo: false`. Default none.
   */
  readonly clientLabel?: string | undefined;
  /**
   * Counts acquisitions, waits, holds, renewals, losses and reconnects, for `client.metrics()`. By group of locks,
   * which is what stands before the first `:` of a name; never by name. Default false, and then nothing is computed.
   */
  readonly metrics?: boolean | undefined;
  /** How many groups the metrics tell apart, 1 to 10,000; further ones count as `other`. With `metrics`. Default 100. */
  readonly metricsGroups?: number | undefined;
  /**
   * Fair locks, up to 100, whose queues on the server are counted: callers of all clients, asked for every 15 s. With
   * `metrics`; `InvalidArgumentError` with `redlock`. Default none.
   */
  readonly metricsQueues?: readonly string[] | undefined;
}

/** How long to wait for a lock, and how long to hold it. */
export interface AcquireOptions {
  /**
   * How long to wait, in milliseconds. 0 tries once. Left out, `lock()` and
   * `acquire()` wait as long as the server answers. `tryLock()` and
   * `tryAcquire()` try once unless the call itself says otherwise.
   */
  readonly waitMs?: number | undefined;
  /**
   * A fixed lease in milliseconds, 100 to 86,400,000, that nothing renews unless
   * `renew` says so. Left out, the lease is the client's and is renewed until it
   * is released.
   */
  readonly leaseMs?: number | undefined;
  /**
   * Renews the lease of `leaseMs`, then 300 to 86,400,000, until it is released. Without `leaseMs` it renews the
   * client's lease, where the client does not say so already. A call that gives `leaseMs` gets a fixed lease
   * unless it says this too. Default false.
   */
  readonly renew?: boolean | undefined;
  /** The longest the lock may be held, in milliseconds from the first grant. Default without bound. */
  readonly maxHoldMs?: number | undefined;
  /**
   * What is left of the time that the caller itself has, in milliseconds, 200 or more, or a function that says so at
   * each call: `() => context.getRemainingTimeInMillis()` of a serverless invocation. The wait takes half of it at the
   * most, and the lease what is left then, so that no lock outlives an invocation that is stopped. Default without
   * bound.
   */
  readonly remainingMs?: number | (() => number) | undefined;
  /**
   * What becomes of it while the circuit breaker of its server is open. `InvalidArgumentError` if the client has none:
   * `connect` is given `onUnavailable` or `breakerFailures`. Default the client's.
   */
  readonly onUnavailable?: OnUnavailable | undefined;
}

/** The defaults of one lock object. */
export interface LockOptions extends AcquireOptions {
  /** Whether each grant has a fencing token, where its kind has any. Default true. */
  readonly fencing?: boolean | undefined;
}

/** One call of a semaphore's `acquire()` or `tryAcquire()`. What is left out is the semaphore object's. */
export interface PermitOptions extends AcquireOptions {
  /**
   * Gives up waiting when it aborts: the promise rejects with `signal.reason`,
   * and what was granted meanwhile is released.
   */
  readonly signal?: AbortSignal | undefined;
}
