// The scenario that every runtime runs. Each step adds a line.

/** Runs the scenario with the package and two `RedisClient`s. Returns the lines. */
export async function scenario({ connect, LockLostError, LockTimeoutError, UnavailableError }, redis, unreachable) {
  const lines = [];
  const name = `scenario-${crypto.randomUUID()}`;
  const client = await connect(redis);
  const other = await connect(redis);
  const lock = client.lock(name, { leaseMs: 5_000 });

  const first = await lock.lock();
  lines.push(`granted ${first.isValid} ${first.remainingMs > 4_000}`);
  lines.push(`refused ${(await other.lock(name).tryLock()) === null}`);
  const late = await other
    .lock(name)
    .lock({ waitMs: 250 })
    .catch((error) => error);
  lines.push(`timed out ${late instanceof LockTimeoutError} ${late.holder !== null}`);

  const waiting = other.lock(name).lock({ waitMs: 10_000 });
  const inside = await lock.lock({ within: first });
  await inside.release();
  lines.push(`released ${await first.release()}`);
  const second = await waiting;
  lines.push(`handed over ${second.token > first.token}`);
  lines.push(`released ${await second.release()}`);

  const controller = new AbortController();
  const held = await lock.lock();
  const aborted = other
    .lock(name)
    .lock({ signal: controller.signal })
    .catch((reason) => reason);
  controller.abort('given up');
  lines.push(`cancelled ${await aborted}`);
  await held.release();

  const short = await client.lock(name, { leaseMs: 300 }).lock();
  await new Promise((resolve) => short.signal.addEventListener('abort', resolve));
  lines.push(`lost ${short.lostReason} ${short.isValid}`);
  lines.push(`extended ${await short.extend().catch((error) => error instanceof LockLostError || error.kind)}`);

  const renewed = await client.lock(name, { leaseMs: 1_500, renew: true }).lock();
  await new Promise((resolve) => setTimeout(resolve, 2_500));
  lines.push(`renewed ${renewed.isValid} ${await renewed.release()}`);

  const kinds = [
    client.mutex(`${name}:mutex`),
    client.fairLock(`${name}:fair`),
    client.readWriteLock(`${name}:rw`).read,
    client.readWriteLock(`${name}:rw2`).write,
    client.semaphore(`${name}:semaphore`, 2).permits(2),
    client.multiLock([client.lock(`${name}:a`), client.mutex(`${name}:b`)]),
  ];
  for (const one of kinds) lines.push(await client.using(one, (lease) => `used ${lease.isValid}`));

  lines.push(
    `${await connect(unreachable, { connectTimeoutMs: 300 }).catch((error) => error instanceof UnavailableError)}`,
  );
  await client.close();
  await other.close();
  return lines;
}

/** The expected lines, the same in every runtime. */
export const EXPECTED_LINES = [
  'granted true true',
  'refused true',
  'timed out true true',
  'released released',
  'handed over true',
  'released released',
  'cancelled given up',
  'lost expired false',
  'extended true',
  'renewed true released',
  ...Array(6).fill('used true'),
  'true',
];
