/**
 * Maps an announced `host:port` to the `host:port` that the program can reach; `null` or `undefined` means the
 * announced one. Called on the thread of JavaScript before each connection to an announced address. It should be fast,
 * because connecting waits for it. If it throws, or returns something else, that attempt to connect fails.
 */
export type AddressFunction = (announced: string) => string | null | undefined;

/**
 * How an acquisition ends while the circuit breaker of its server is open.
 *
 * - `fail`: it fails at once with `UnavailableError`
 * - `local`: the client grants a lease that excludes only other callers of this client and has no token;
 *   `lease.degraded` is true. For `lock`, `mutex`, `fairLock` and composite locks of these; acquisitions of other kinds
 *   fail
 * - `skip`: the lock is not granted, and the guarded code does not run: `tryLock()` and `tryAcquire()` return `null`,
 *   `using()` returns `undefined`, `lock()` and `acquire()` reject with an `UnavailableError` whose `skipped` is true
 */
export type OnUnavailable = 'fail' | 'local' | 'skip';

/** The options of a client. An option that is left out has its default. */
export interface ConnectOptions {
  /**
   * The lease of locks that set none, in milliseconds: 300 to 86,400,000, default 30,000. If it is renewed, a renewal
   * is due each time a third of it has passed.
   */
  readonly leaseMs?: number | undefined;
  /**
   * Whether the client renews the leases of locks that set no length. If false, these leases are fixed, unless the lock
   * or the call sets `renew`. Default true; on WebAssembly false.
   */
  readonly renew?: boolean | undefined;
  /** How long a reply of the server may take, in milliseconds. Default 3,000. */
  readonly commandTimeoutMs?: number | undefined;
  /** How long connecting may take, in milliseconds. Default 5,000. */
  readonly connectTimeoutMs?: number | undefined;
  /** A waiter polls at random intervals between these two durations, in milliseconds. Default [500, 750]. */
  readonly retryIntervalMs?: readonly [min: number, max: number] | undefined;
  /** A prefix for every lock's name. Default none. */
  readonly keyPrefix?: string | undefined;
  /** A PEM file of the authorities to trust for `rediss://`, instead of the system's. Default the system's. */
  readonly tlsCaFile?: string | undefined;
  /**
   * A PEM file of this client's certificate, for a server that demands one; intermediate certificates can follow in the
   * file. Requires `tlsKeyFile`. Default none.
   */
  readonly tlsCertFile?: string | undefined;
  /** A PEM file of the private key for `tlsCertFile`, which must not be encrypted. Default none. */
  readonly tlsKeyFile?: string | undefined;
  /**
   * The name that the certificates of all servers must have, including servers of the URL, instead of the host of the
   * connection. For nodes and sentinels that announce IP addresses which no certificate names. A host name or an IP
   * address, without a port; with `rediss://`. Default each server's own host.
   */
  readonly tlsServerName?: string | undefined;
  /**
   * Maps the addresses that cluster nodes and sentinels announce to addresses that the program can reach, for example
   * behind NAT or from outside a Kubernetes cluster: `{ '10.0.0.1:6379': 'localhost:7001' }`. Give a port on both sides
   * or on neither, and write an IPv6 address in brackets. Can also be a function, see `AddressFunction`. Addresses of
   * the URL are not mapped. Default as announced.
   */
  readonly addressMap?: Readonly<Record<string, string>> | ReadonlyMap<string, string> | AddressFunction | undefined;
  /**
   * Connects at the first use, for a client that is made before its server is up. An acquisition then waits for the
   * connection as long as its `waitMs` allows, as in an outage. If locks cannot work with the server, the first use and
   * each later one fail with `MisconfiguredError`. Default false.
   */
  readonly lazy?: boolean | undefined;
  /**
   * How an acquisition ends while the circuit breaker of its server is open; a lock or a call can have its own setting.
   * Switches the circuit breakers on. With `redlock`, `local` is refused with `InvalidArgumentError`. Default `fail`.
   */
  readonly onUnavailable?: OnUnavailable | undefined;
  /**
   * Switches the circuit breakers on, one for each primary. A breaker opens after this many failures in a row, 1 to
   * 1,000,000. These count as failures: a call without a reply in time, a connection that is lost or cannot be made,
   * and an error by which the server reports that it cannot serve. While a breaker is open, acquisitions are not
   * attempted; releases and renewals go on. Default no circuit breaker; 5 if `onUnavailable` or `breakerPauseMs` is
   * given.
   */
  readonly breakerFailures?: number | undefined;
  /**
   * The time between two probes of a server while its circuit breaker is open, in milliseconds, above 0. A reply that
   * is no failure closes the breaker. Switches the circuit breakers on. Default 10,000.
   */
  readonly breakerPauseMs?: number | undefined;
  /**
   * Whether the client tells its servers which program on which machine it is, see `ClientInfo`, and reads the same of
   * other clients, so that `holder()`, `LockTimeoutError` and the tools can name programs. Costs one call at the first
   * use and one every 30 s while the client is in use, with `redlock` on each primary, and one every 60 s for each
   * other client that was found to hold a lock. The server keeps the information for 90 s. Anybody who may read the
   * server's keys can read it. Default true; on WebAssembly false.
   */
  readonly clientInfo?: boolean | undefined;
  /**
   * A label that the client publishes with the information of `clientInfo`, such as `'blue'` or `'order-service eu-1'`:
   * up to 200 characters on one line, without control characters. `InvalidArgumentError` for any other label, and for
   * any label with `clientInfo: false`. Default none.
   */
  readonly clientLabel?: string | undefined;
  /**
   * Counts acquisitions, waits, holds, renewals, losses and reconnects, for `client.metrics()`. Locks are counted by
   * group, never by name; the group is the part of the name before the first `:`, or `none` without a `:`. Default
   * false, and then nothing is computed.
   */
  readonly metrics?: boolean | undefined;
  /**
   * The maximum number of groups in the metrics, 1 to 10,000; further groups count as `other`. With `metrics`. Default
   * 100.
   */
  readonly metricsGroups?: number | undefined;
  /**
   * Fair locks, up to 100, whose wait queues on the server are counted. A queue has the waiters of all clients; the
   * client asks the server for it every 15 s. With `metrics`; `InvalidArgumentError` with `redlock`. Default none.
   */
  readonly metricsQueues?: readonly string[] | undefined;
}

/** How long to wait for a lock, and how long to hold it. */
export interface AcquireOptions {
  /**
   * How long to wait, in milliseconds; 0 makes one attempt. Without it, `lock()` and `acquire()` wait as long as the
   * server answers. `tryLock()` and `tryAcquire()` make one attempt unless the call itself sets `waitMs`.
   */
  readonly waitMs?: number | undefined;
  /**
   * The length of a fixed lease in milliseconds, 100 to 86,400,000. The lease is not renewed unless `renew` is set too.
   * Without `leaseMs`, the lease has the client's length, and is renewed if `renew` is true here or for the client.
   */
  readonly leaseMs?: number | undefined;
  /**
   * Renews the lease of `leaseMs`, which must then be 300 to 86,400,000, until it is released. Without `leaseMs`,
   * renews the client's lease if the client does not renew it anyway. A call that sets `leaseMs` gets a fixed lease
   * unless it sets `renew` too. Default false.
   */
  readonly renew?: boolean | undefined;
  /** The longest hold in milliseconds, counted from the first grant. Default no bound. */
  readonly maxHoldMs?: number | undefined;
  /**
   * The time that the caller itself has left, in milliseconds, 200 or more, or a function that returns it at each call:
   * `() => context.getRemainingTimeInMillis()` of a serverless invocation. The wait takes at most half of that time,
   * and the lease at most the rest, so that no lock outlives an invocation that is stopped. Default no bound.
   */
  readonly remainingMs?: number | (() => number) | undefined;
  /**
   * How the acquisition ends while the circuit breaker of its server is open. `InvalidArgumentError` if the client has
   * no circuit breaker: `connect` must get `onUnavailable`, `breakerFailures` or `breakerPauseMs`. Default the client's
   * setting.
   */
  readonly onUnavailable?: OnUnavailable | undefined;
}

/** The defaults of one lock object. */
export interface LockOptions extends AcquireOptions {
  /** Whether each grant has a fencing token, if the kind of lock has tokens. Default true. */
  readonly fencing?: boolean | undefined;
}

/**
 * The options of one call of a semaphore's `acquire()` or `tryAcquire()`. An option that is left out has the value of
 * the semaphore object, except `waitMs` in `tryAcquire()`, whose default is 0.
 */
export interface PermitOptions extends AcquireOptions {
  /**
   * Ends the wait when it aborts: the promise rejects with `signal.reason`, and a lock that was granted meanwhile is
   * released.
   */
  readonly signal?: AbortSignal | undefined;
}
