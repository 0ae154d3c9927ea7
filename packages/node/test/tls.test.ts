// Tests of `rediss://` with client certificates. `core/client/tests/tls.rs` tests the message of each refusal.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { connect, InvalidArgumentError, MisconfiguredError } from 'steadlock';
import { freePort, RedisServer } from './server.js';

describe('a server that demands client certificates', () => {
  let folder: string;
  let server: RedisServer;
  let url: string;
  const file = (name: string) => join(folder, name);

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'steadlock-tls-'));
    execFileSync(join(__dirname, '..', '..', '..', '..', 'ci', 'support', 'certificates.sh'), [folder]);
    const port = await freePort();
    url = `rediss://localhost:${port}`;
    const files = ['--tls-cert-file', file('server.pem'), '--tls-key-file', file('server.key')];
    const clients = ['--tls-auth-clients', 'yes', '--tls-ca-cert-file', file('ca.pem')];
    server = await RedisServer.start('--tls-port', `${port}`, ...files, ...clients);
  });

  after(async () => {
    await server[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  });

  it('accepts a client that has one', async () => {
    const client = await connect(url, {
      tlsCaFile: file('ca.pem'),
      tlsCertFile: file('client.pem'),
      tlsKeyFile: file('client.key'),
    });
    const lease = await client.lock('door').lock();
    assert.ok(lease.isValid);
    assert.equal(await lease.release(), 'released');
    await client.close();
  });

  it('is misconfigured for a client that has none', async () => {
    const demands = (error: unknown) =>
      error instanceof MisconfiguredError && /demands a client certificate.*tlsCertFile/.test(error.message);
    await assert.rejects(connect(url, { tlsCaFile: file('ca.pem') }), demands);
    await assert.rejects(connect(url, { tlsCaFile: file('other.pem') }), MisconfiguredError);
    await assert.rejects(connect(url, { tlsCertFile: file('client.pem') }), InvalidArgumentError);
  });

  it('is verified by tlsServerName', async () => {
    const options = { tlsCaFile: file('ca.pem'), tlsServerName: 'cache.example' };
    await assert.rejects(connect(url, options), (error: Error) => {
      assert.ok(error instanceof MisconfiguredError);
      assert.match(error.message, /not for cache\.example but for localhost/);
      return true;
    });
    await assert.rejects(connect('redis://127.0.0.1:1', { tlsServerName: 'cache.example' }), InvalidArgumentError);
  });
});
