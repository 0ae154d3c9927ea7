// The six scenes of the tour. Each is a script for real clients. The numbers in its last text are measured.
//
// `until` waits for an action of clients or the server. `rest` only gives the reader time to look.

import { numberOf, seconds } from './names.js';

const ms = (time) => `${Math.max(1, Math.round(time))} ms`;
const list = (names) => names.join(', ');

export const SCENES = [
  {
    id: 'hand-over',
    title: 'One holder',
    text: 'Three clients want one lock. The server keeps a record of its holder, and the others wait. A release notifies the waiters, so they need not poll for it.',
    settings: { kind: 'lock', leaseMs: 3_000, renew: true },
    async play({ ada, ben, cleo, step, until, rest, isHeldOnServerBy }) {
      step('Ada acquires the lock.');
      ada.acquire();
      await until(() => ada.phase === 'holds' && isHeldOnServerBy('Ada'));
      await rest(800);
      step('Ben and Cleo request the lock, and wait.');
      ben.acquire();
      cleo.acquire();
      await until(() => ben.calls > 0 && cleo.calls > 0 && ben.phase === 'waits' && cleo.phase === 'waits');
      await rest(1_500);
      step('Ada writes to the stores, and releases.');
      ada.finish();
      await until(() => ben.phase === 'holds' || cleo.phase === 'holds');
      const [next, last] = ben.phase === 'holds' ? [ben, cleo] : [cleo, ben];
      await until(() => isHeldOnServerBy(next.name));
      await rest(1_500);
      step(`${next.name} does the same.`);
      next.finish();
      await until(() => last.phase === 'holds');
      await rest(1_000);
      last.finish();
      await until(() => last.phase === 'idle');
      const took = next.grantedAt - ada.releasedAt;
      return `Three clients, one holder at each moment, and three rising tokens. ${next.name} had the lock ${ms(took)} after Ada released it.`;
    },
  },
  {
    id: 'killed',
    title: 'Killed holder',
    text: 'A lock is a lease: it is held for a time, and renewed while its holder lives. A killed client renews nothing and releases nothing.',
    settings: { kind: 'lock', leaseMs: 2_000, renew: true },
    async play({ ada, ben, step, until, rest, isHeldOnServerBy }) {
      step('Ada holds the lock, and renews it. Ben waits.');
      ada.acquire();
      await until(() => ada.phase === 'holds');
      const renewed = renewal(ada);
      ben.acquire();
      await until(() => ben.phase === 'waits' && renewed() && isHeldOnServerBy('Ada'));
      await rest(1_500);
      step('Ada is killed, in the middle of its work.');
      ada.kill();
      const killed = performance.now();
      await until(() => ben.phase === 'holds');
      const took = performance.now() - killed;
      await until(() => isHeldOnServerBy('Ben'));
      step('The record has ended by itself, and Ben holds the lock.');
      await rest(1_500);
      ben.finish();
      await until(() => ben.phase === 'idle');
      return `Nobody cleaned up after Ada. Its lease of 2 s ended by itself, and Ben held the lock ${seconds(took)} after the kill.`;
    },
  },
  {
    id: 'paused',
    title: 'Late write',
    text: 'Ada checks its lease, finds it valid, and is stopped right then: by a garbage collection, a busy host, a closed laptop. When it continues, its next step is the write. No lock can stop that. A store that compares fencing tokens can.',
    settings: { kind: 'lock', leaseMs: 1_500, renew: true },
    async play({ ada, ben, stores, step, until, rest, isHeldOnServerBy }) {
      step('Ada holds the lock, and has read the balance: 100.');
      ada.acquire();
      await until(() => ada.phase === 'holds' && isHeldOnServerBy('Ada'));
      const token = ada.token;
      await rest(800);
      step('Ada is paused between its last check and its write of 110.');
      ada.pause();
      await until(() => ada.isPaused);
      ben.acquire({ workMs: 600 });
      await until(() => ben.phase === 'holds');
      step('Ada’s lease has ended. Ben acquires the lock, and adds 25: 125.');
      await until(() => ben.phase === 'idle' && ben.written.length === 1);
      await rest(1_000);
      step('Ada continues, and writes 110.');
      await ada.resume();
      await until(() => ada.written.length > 0);
      const [first] = ada.written;
      await until(() => ada.written.length > 1 && ada.phase === 'idle');
      step('Ada was refused, so it acquires the lock again, reads 125, and writes 135.');
      const lost = stores.unfenced.missing;
      const fenced = `The fenced store ${first.fenced} token ${numberOf(token)}, because the highest one was ${numberOf(ben.token)}`;
      return `${fenced}: nothing is lost there: ${stores.fenced.balance} is right. The other store accepted the late write, and Ben’s ${lost} are lost: ${stores.unfenced.balance}.`;
    },
  },
  {
    id: 'fairness',
    title: 'Taking turns',
    text: 'Four clients acquire the lock twice each, the second time right after their release. A plain lock is granted to the first to ask. A fair lock has a queue on the server.',
    settings: { kind: 'lock', leaseMs: 3_000, renew: true },
    async play({ reset, ada, ben, cleo, dan, all, history, server, step, until, rest }) {
      const orders = {};
      for (const kind of ['lock', 'fair']) {
        await reset({ kind });
        step(
          kind === 'lock'
            ? 'A plain lock: Ada holds it, Ben, Cleo and Dan request it in this order.'
            : 'The same with a fair lock.',
        );
        ada.acquire({ turns: 2, workMs: 250, untilFinished: true });
        await until(() => ada.phase === 'holds');
        for (const client of [ben, cleo, dan]) {
          client.acquire({ turns: 2, workMs: 250 });
          // The client has made its attempt, and is in the queue if the kind has one.
          await until(() => client.calls >= 2 && (kind === 'lock' || server.queue.includes(client.name)));
        }
        await rest(800);
        ada.finish();
        await until(() => grants(history).length === 8 && all.every(({ phase }) => phase === 'idle'));
        orders[kind] = { order: grants(history).map(({ lane }) => lane), overtaken: overtakings(history) };
        await rest(1_200);
      }
      const { lock, fair } = orders;
      const plain = lock.overtaken === 0 ? 'in order, by luck' : `${lock.overtaken} grants overtook an earlier waiter`;
      return `Plain lock: ${list(lock.order)}; ${plain}. Fair lock: ${list(fair.order)}; ${fair.overtaken === 0 ? 'in order of arrival' : `${fair.overtaken} grants overtook an earlier waiter`}.`;
    },
  },
  {
    id: 'cut-off',
    title: 'Cut off',
    text: 'Ada holds a renewed lease, and its connection to the server is cut. It needs no message: its deadline, counted from before its request, comes before the end of the record.',
    settings: { kind: 'lock', leaseMs: 2_000, renew: true },
    async play({ ada, ben, step, until, rest, isHeldOnServerBy }) {
      step('Ada holds the lock. Ben waits.');
      ada.acquire();
      await until(() => ada.phase === 'holds');
      const renewed = renewal(ada);
      ben.acquire();
      await until(() => ben.phase === 'waits' && renewed() && isHeldOnServerBy('Ada'));
      await rest(1_200);
      step('Ada is cut off. Its renewals fail, and it works until its deadline.');
      ada.cut(true);
      await until(() => ada.phase === 'lost');
      step('Ada’s deadline has come: it knows that its lease is lost, and stops.');
      await until(() => ben.phase === 'holds');
      const gap = ben.grantedAt - ada.lostAt;
      await until(() => isHeldOnServerBy('Ben'));
      step('Then the record ends, and Ben holds the lock.');
      await rest(1_500);
      ada.cut(false);
      ben.finish();
      await until(() => ben.isIdle && ada.isIdle);
      return `Ada stopped believing ${ms(gap)} before Ben held the lock. There was no moment at which both believed, although Ada could not reach the server.`;
    },
  },
  {
    id: 'data-lost',
    title: 'Lost data',
    text: 'An outage shorter than the lease costs nothing. A server that restarts without its data may grant the lock twice; the first holder learns of it at its next renewal. Tokens follow the server’s clock, so they still rise.',
    settings: { kind: 'lock', leaseMs: 4_000, renew: true },
    async play({ ada, ben, stage, history, step, until, rest, isHeldOnServerBy }) {
      step('Ada holds the lock. Ben waits.');
      ada.acquire();
      await until(() => ada.phase === 'holds');
      ben.acquire();
      await until(() => ben.phase === 'waits' && ben.calls > 1 && isHeldOnServerBy('Ada'));
      const token = ada.token;
      await rest(800);
      step('The server is stopped. Ada works until its deadline.');
      stage.stop(true);
      const calls = ada.calls;
      await until(() => ada.calls > calls);
      await rest(300);
      step('The server is back in time: Ada’s lease is renewed, and nothing is lost.');
      const renewed = renewal(ada);
      stage.stop(false);
      await until(renewed);
      await rest(800);
      // The data is lost right after a renewal of Ada, so that Ben polls before Ada's next renewal.
      await until(renewal(ada));
      step('The server loses all its data. Ada does not know yet.');
      await stage.loseData();
      await until(() => ben.phase === 'holds');
      step('Ben polls, and is granted the lock. For now both believe that they hold it.');
      await until(() => ada.phase !== 'holds');
      step('Ada’s renewal finds Ben’s record: Ada stops.');
      const both = bothBelieved(history, 'Ada', 'Ben');
      await rest(1_200);
      ben.finish();
      await until(() => ben.isIdle && ada.isIdle);
      const rises = ben.token > token ? 'higher than' : 'not higher than';
      return `Both believed for ${seconds(both)}, until Ada’s next renewal. Ben’s token is ${rises} Ada’s, although the server had forgotten Ada’s token. A fenced store would have refused Ada from then on.`;
    },
  },
];

/** Returns a function that returns whether a client's lease was renewed since this call. */
function renewal(client) {
  const { until } = client;
  // Two readings of one deadline differ by less than 100 ms.
  return () => client.phase === 'holds' && client.until > until + 100;
}

function grants(history) {
  return history.spans.filter(({ kind, to }) => kind === 'holds' && to !== undefined);
}

/** Returns the number of grants after which an earlier waiter was still waiting. */
export function overtakings(history) {
  const all = grants(history);
  return all.filter((one, i) => all.slice(i + 1).some(({ askedAt }) => askedAt < one.askedAt)).length;
}

/** Returns the time for which two clients believed at once that they hold the lock. */
export function bothBelieved(history, a, b) {
  const spans = (lane) => history.spans.filter((span) => span.lane === lane && span.kind === 'holds');
  const end = ({ to, until }) => Math.min(to ?? Infinity, until);
  let sum = 0;
  for (const one of spans(a)) {
    for (const other of spans(b)) {
      sum += Math.max(0, Math.min(end(one), end(other)) - Math.max(one.from, other.from));
    }
  }
  return sum;
}
