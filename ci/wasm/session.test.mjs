// Tests the protocol as WebAssembly: a session acquires and releases a lock on a real redis-server.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash, randomBytes, randomInt } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { test } from 'node:test';

const ROOT = new URL('../../', import.meta.url);
const MODULE = new URL('target/wasm32-unknown-unknown/release/steadlock_wasm_check.wasm', ROOT);
const Redis = createRequire(new URL('examples/seckill/node/', ROOT))('ioredis');

const now = () => performance.now() * 1000;

/** Assembles a script as the server receives it: the parts that it uses, then the script itself, without comments. */
function scriptOf(file) {
  const read = (name) => readFileSync(new URL(`core/protocol/lua/${name}`, ROOT), 'utf8');
  const own = read(file);
  const parts = own.match(/^-- Uses (.*)$/m)?.[1].split(', ') ?? [];
  return (parts.map(read).join('') + own).replace(/^ *--.*$/gm, '');
}

/** A session in WebAssembly, and the connection for its calls. */
class Session {
  constructor(wasm, redis) {
    this.wasm = wasm;
    this.redis = redis;
    this.calls = [];
    wasm.open(randomBytes(8).readBigUInt64LE(), now());
  }

  write(text) {
    const bytes = new TextEncoder().encode(text);
    new Uint8Array(this.wasm.memory.buffer, this.wasm.input(bytes.length), bytes.length).set(bytes);
  }

  poll() {
    const length = this.wasm.poll();
    if (length === 0) return null;
    return JSON.parse(new TextDecoder().decode(new Uint8Array(this.wasm.memory.buffer, this.wasm.output(), length)));
  }

  /** Polls the session and sends its calls until it has an event. Returns that event. */
  async next() {
    for (let item = this.poll(); ; item = this.poll()) {
      assert.ok(item, 'the session has neither a call nor an event');
      if (item.event) return item;
      if (item.call) await this.send(item);
    }
  }

  async send({ call, file, sha1, keys, args }) {
    const script = scriptOf(file);
    assert.equal(createHash('sha1').update(script).digest('hex'), sha1);
    this.calls.push(file);
    this.wasm.sent(BigInt(call), now());
    const reply = await this.redis.eval(script, keys.length, ...keys, ...args);
    this.write(reply.map((element) => (typeof element === 'number' ? 'i' : 'b') + element).join('\n'));
    this.wasm.reply(BigInt(call), now());
  }
}

test('a session in WebAssembly acquires and releases a lock', async (t) => {
  const redis = new Redis(await startRedis(t));
  t.after(() => redis.disconnect());
  const { instance } = await WebAssembly.instantiate(readFileSync(MODULE));
  const session = new Session(instance.exports, redis);

  session.write('wasm');
  session.wasm.acquire(now());
  const granted = await session.next();
  assert.equal(granted.event, 'granted');
  assert.ok(BigInt(granted.token) > 0n);
  assert.equal(await redis.hlen('wasm'), 1);
  assert.ok((await redis.pttl('wasm')) > 29_000);

  session.wasm.release(now());
  assert.deepEqual(await session.next(), { event: 'released', outcome: 'Released' });
  assert.equal(await redis.exists('wasm'), 0);
  assert.deepEqual(session.calls, ['lock_acquire.lua', 'lock_release.lua']);
});

/** Starts a redis-server that ends with the test, and returns its URL. */
async function startRedis(t) {
  for (;;) {
    // A port below the range that systems use for outgoing connections.
    const port = randomInt(10_000, 32_000);
    const options = ['--port', port, '--save', '', '--appendonly', 'no', '--dir', tmpdir()];
    const server = spawn('redis-server', options, { stdio: ['ignore', 'pipe', 'inherit'] });
    t.after(() => server.kill());
    let log = '';
    for await (const text of server.stdout) {
      log += text;
      if (log.includes('Ready to accept connections')) return `redis://127.0.0.1:${port}`;
    }
    assert.match(log, /Address already in use/);
  }
}
