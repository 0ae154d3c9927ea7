// The behaviour of every kind of lock: the scenarios that all languages share, on each transport.
//
// See ci/behaviour/README.md for the steps.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type AcquireOptions,
  type Client,
  InvalidArgumentError,
  type Lease,
  type Lock,
  type LockOptions,
  ROOT,
  type Semaphore,
  SteadlockError,
} from './package.js';
import { eventually } from './server.js';

/** A transport of the tests, with its servers. */
export interface Transport {
  /** Starts the servers. */
  start(): Promise<Servers>;
}

/** The servers of a transport while it is used. */
export interface Servers {
  /** The number of servers. */
  readonly count: number;
  /** Opens a client of the first server; for a RedLock, of all servers. */
  open(isRedlock: boolean, options: { leaseMs: number | undefined }): Promise<Client>;
  stop(): Promise<void>;
}

/** A scenario of the file `scenarios.json`. */
interface Scenario {
  readonly name: string;
  readonly kinds: readonly string[];
  readonly lease_ms?: number;
  readonly limit?: number;
  readonly skip_without_implicit_owner?: readonly string[];
  readonly steps: readonly Step[];
}

/** A step, with the fields of all kinds of steps. */
interface Step {
  readonly do: string;
  readonly client?: number;
  readonly kind?: string;
  readonly lock?: string;
  readonly task?: string;
  readonly tasks?: number;
  readonly as?: string;
  readonly lease?: string;
  readonly within?: string;
  readonly call?: string;
  readonly error?: string;
  readonly is?: unknown;
  readonly above?: number | string;
  readonly below?: number;
  readonly wait_ms?: number;
  readonly lease_ms?: number;
  readonly renew?: boolean;
  readonly max_hold_ms?: number;
  readonly by_ms?: number;
  readonly within_ms?: number;
  readonly ms?: number;
  readonly token?: boolean;
  readonly permits?: number;
  readonly limit?: number;
}

/** A call that runs in the background. */
interface Call {
  readonly lease: Promise<Lease>;
  readonly controller: AbortController;
}

const SUITE = join(ROOT, 'ci', 'behaviour', 'scenarios.json');
const { kinds, scenarios } = JSON.parse(readFileSync(SUITE, 'utf8')) as {
  kinds: string[];
  scenarios: Scenario[];
};
const TIMEOUT_MS = 5_000;

/** Makes the lock of a kind. */
const FACTORIES: Record<
  string,
  (client: Client, name: string, options: LockOptions, limit: number) => Lock | Semaphore
> = {
  lock: (client, name, options) => client.lock(name, options),
  redlock: (client, name, options) => client.lock(name, options),
  mutex: (client, name, options) => client.mutex(name, options),
  fair_lock: (client, name, options) => client.fairLock(name, options),
  read_lock: (client, name, options) => client.readWriteLock(name, options).read,
  write_lock: (client, name, options) => client.readWriteLock(name, options).write,
  semaphore: (client, name, options, limit) => client.semaphore(name, limit, options),
  multi: (client, name, options) => client.multiLock([client.lock(`${name}:a`), client.mutex(`${name}:b`)], options),
  member: (client, name, options) => client.lock(`${name}:a`, options),
};

/** One run of a scenario with one kind of lock. */
class Run {
  readonly #name = `behaviour-${randomUUID()}`;
  readonly #locks = new Map<string, Lock | Semaphore>();
  readonly #leases = new Map<string, Lease>();
  readonly #calls = new Map<string, Call>();

  constructor(
    readonly kind: string,
    readonly limit: number,
    readonly clients: readonly Client[],
  ) {}

  /**
   * The function of each step, by the step's name. The field `task` is ignored, because JavaScript has no implicit
   * owner.
   */
  readonly steps: Record<string, (step: Step) => Promise<void>> = {
    acquire: (step) => this.#settle(step, this.#acquire(step)),
    reenter: (step) => this.#settle(step, this.#acquire(step)),
    try: async (step) => {
      const attempt = this.#try(step);
      if (step.is !== 'refused') return this.#settle(step, attempt);
      assert.equal(await attempt, null);
    },
    race: async (step) => {
      const racers = Array.from({ length: step.tasks as number }, (_, number) => ({ ...step, client: number % 2 }));
      const attempts = await Promise.all(racers.map((racer) => this.#try(racer)));
      const leases = attempts.filter((lease) => lease !== null);
      assert.equal(leases.length, step.is);
      for (const [index, lease] of leases.entries()) this.#leases.set(`${step.as}${index + 1}`, lease);
    },
    start: async (step) => {
      const controller = new AbortController();
      const lease = this.#acquire(step, controller.signal);
      lease.catch(() => {});
      this.#calls.set(required(step.as), { lease, controller });
    },
    await: (step) => {
      const { lease } = this.#call(step);
      const late = sleep(step.within_ms ?? TIMEOUT_MS, undefined, { ref: false }).then(() =>
        assert.fail('the call is still waiting'),
      );
      return this.#settle({ ...step, as: required(step.call) }, Promise.race([lease, late]));
    },
    cancel: async (step) => {
      const { lease, controller } = this.#call(step);
      controller.abort('cancelled');
      await assert.rejects(lease, (reason) => reason === 'cancelled');
    },
    release: async (step) => {
      const outcome = await this.#lease(step.lease).release();
      assert.ok(asList(step.is ?? 'released').includes(outcome), `${outcome}`);
    },
    leave: async (step) => {
      const lock = this.#lock(step);
      const leave = (lease: Lease) => (isSemaphore(lock) ? lock.release(lease) : lock.unlock(lease));
      // A step without a lease passes `null`, as after a refused attempt.
      if (step.lease === undefined) return assert.rejects(leave(null as never), InvalidArgumentError);
      const left = leave(this.#lease(step.lease));
      await check(step, left);
      if (step.error === undefined) return assert.equal(await left, 'released');
      if (step.is === undefined) return;
      await assert.rejects(left, ({ reason }) => asList(step.is).includes(reason));
    },
    extend: (step) => check(step, this.#lease(step.lease).extend(step.by_ms)),
    valid: async (step) => assert.equal(this.#lease(step.lease).isValid, step.is),
    held: async (step) => {
      const lock = this.#lock(step);
      // A semaphore has no `isHeld()`.
      const held = isSemaphore(lock) ? step.lease !== undefined && this.#lease(step.lease).isValid : lock.isHeld();
      assert.equal(held, step.is);
    },
    remaining: async (step) => {
      const { remainingMs } = this.#lease(step.lease);
      assert.ok(remainingMs >= Number(step.above) && remainingMs <= (step.below as number), `${remainingMs}`);
    },
    kept: async (step) => {
      const wanted = this.#lock(step);
      const lock = isSemaphore(wanted) ? wanted.permits(1) : wanted;
      const end = performance.now() + (step.ms as number);
      while (performance.now() < end) {
        assert.ok(this.#lease(step.lease).isValid);
        const remainingMs = (await lock.holder())?.remainingMs ?? assert.fail('nobody holds the lock');
        assert.ok(remainingMs <= (step.below as number), `${remainingMs}`);
        await sleep(20);
      }
    },
    token: async (step) => {
      const { token } = this.#lease(step.lease);
      if (step.is === 'none') return assert.equal(token, null);
      assert.equal(typeof token, 'number');
      if (typeof step.above === 'string') {
        assert.ok((token as number) > (this.#lease(step.above).token as number));
      }
    },
    locked: async (step) => {
      const end = performance.now() + (step.within_ms ?? 0);
      while ((await this.#isLocked(step)) !== step.is) {
        assert.ok(performance.now() < end, `isLocked is not ${step.is}`);
        await sleep(10);
      }
    },
    available: async (step) => assert.equal(await (this.#lock(step) as Semaphore).available(), step.is),
    force: async (step) => assert.equal(await this.#client(step).forceRelease(this.#lock(step)), step.is),
    set_limit: (step) => {
      const changed = this.#client(step).setLimit(this.#name, step.limit as number);
      return check(
        step,
        changed.then((wasHeld) => assert.equal(wasHeld, step.is)),
      );
    },
    lost: async (step) => {
      const lease = this.#lease(step.lease);
      const { signal } = lease;
      await eventually(step.within_ms ?? TIMEOUT_MS, () => signal.aborted);
      assert.ok(asList(step.is).includes(lease.lostReason), `${lease.lostReason}`);
      assert.equal(signal.reason.reason, lease.lostReason);
    },
    pause: (step) => sleep(step.ms),
    // Tasks do not exist in JavaScript, so the end of one does nothing.
    end: async () => {},
    close: (step) => this.#client(step).close(),
  };

  #acquire(step: Step, signal?: AbortSignal): Promise<Lease> {
    const options = { ...optionsOf(step), signal };
    const lock = this.#lock(step);
    if (isSemaphore(lock)) return lock.acquire(step.permits, options);
    return lock.lock({ ...options, within: step.within === undefined ? undefined : this.#lease(step.within) });
  }

  #try(step: Step): Promise<Lease | null> {
    const options = { ...optionsOf(step), waitMs: step.wait_ms ?? 0 };
    const lock = this.#lock(step);
    return isSemaphore(lock) ? lock.tryAcquire(step.permits, options) : lock.tryLock(options);
  }

  async #isLocked(step: Step): Promise<boolean> {
    const lock = this.#lock(step);
    return isSemaphore(lock) ? (await lock.available()) < lock.limit : lock.isLocked();
  }

  /** Stores the lease under its name, or checks that the step's error came. */
  async #settle(step: Step, attempt: Promise<Lease | null>): Promise<void> {
    await check(step, attempt);
    if (step.error !== undefined) return;
    const lease = await attempt;
    assert.ok(lease, 'the attempt was refused');
    this.#leases.set(required(step.as), lease);
  }

  #client(step: Step): Client {
    return this.clients[step.client ?? 0] as Client;
  }

  /** Returns the lock object that the step names, or a new one if it names none. */
  #lock(step: Step): Lock | Semaphore {
    if (step.lock === undefined) return this.#newLock(step);
    const key = `${step.client ?? 0} ${step.lock}`;
    const lock = this.#locks.get(key) ?? this.#newLock(step);
    this.#locks.set(key, lock);
    return lock;
  }

  #newLock(step: Step): Lock | Semaphore {
    const factory = FACTORIES[step.kind ?? this.kind];
    assert.ok(factory, `no lock is of the kind ${step.kind ?? this.kind}`);
    return factory(this.#client(step), this.#name, { fencing: step.token }, step.limit ?? this.limit);
  }

  #lease(name: string | undefined): Lease {
    return this.#leases.get(required(name)) ?? assert.fail(`there is no lease ${name}`);
  }

  #call(step: Step): Call {
    return this.#calls.get(required(step.call)) ?? assert.fail(`there is no call ${step.call}`);
  }
}

/** Runs every scenario on each transport; with `onlyFirst`, one scenario for each kind. */
export function play(transports: Readonly<Record<string, Transport>>, { onlyFirst = false } = {}): void {
  for (const [name, transport] of Object.entries(transports)) {
    describe(`on ${name}`, { concurrency: 4 }, () => {
      let servers: Servers;
      let passed = 0;
      const skipped: string[] = [];

      before(async () => {
        servers = await transport.start();
      });

      after(async () => {
        await servers.stop();
        console.log(`behaviour on ${name}: ${passed} scenarios passed`);
        if (onlyFirst) return;
        for (const scenario of skipped)
          console.log(`behaviour on ${name}: not for languages without implicit owners: ${scenario}`);
      });

      for (const scenario of scenarios) {
        for (const kind of scenario.kinds) {
          assert.ok(kinds.includes(kind), `${scenario.name}: ${kind}`);
          if (scenario.skip_without_implicit_owner?.includes(kind)) {
            skipped.push(`${scenario.name} (${kind})`);
            continue;
          }
          if (onlyFirst && scenario !== scenarios.find(({ kinds }) => kinds.includes(kind))) continue;
          it(`${scenario.name} (${kind})`, { timeout: 60_000 }, async (test) => {
            if (kind === 'redlock' && servers.count < 3) return test.skip('a RedLock needs three servers');
            await playOne(scenario, kind, servers);
            passed += 1;
          });
        }
      }
    });
  }
}

async function playOne(scenario: Scenario, kind: string, servers: Servers): Promise<void> {
  const open = () => servers.open(kind === 'redlock', { leaseMs: scenario.lease_ms });
  await using first = await open();
  await using second = await open();
  const run = new Run(kind, scenario.limit ?? 1, [first, second]);
  for (const [index, step] of scenario.steps.entries()) {
    const act = run.steps[step.do];
    assert.ok(act, `there is no step ${step.do}`);
    try {
      await act(step);
    } catch (cause) {
      throw new Error(`step ${index + 1}, ${JSON.stringify(step)}: ${cause}`, { cause });
    }
  }
}

/** Checks that the call succeeds, or fails with the kind of error that the step names. */
async function check(step: Step, attempt: Promise<unknown>): Promise<void> {
  if (step.error === undefined) return void (await attempt);
  const error = await attempt.then(
    () => assert.fail(`no ${step.error}`),
    (reason) => reason,
  );
  assert.ok(error instanceof SteadlockError && error.kind === step.error, `${error}`);
}

function optionsOf(step: Step): AcquireOptions {
  return { waitMs: step.wait_ms, leaseMs: step.lease_ms, renew: step.renew, maxHoldMs: step.max_hold_ms };
}

function isSemaphore(lock: Lock | Semaphore): lock is Semaphore {
  return 'limit' in lock;
}

function asList(expected: unknown): unknown[] {
  return Array.isArray(expected) ? expected : [expected];
}

function required(name: string | undefined): string {
  return name ?? assert.fail('the step names nothing');
}
