// The six scenes of the tour. Each is a script for real clients. The numbers in its last text are measured.
//
// `until` waits for an action of clients or the server. `beat` only gives the reader time to look.

import { numberOf, seconds } from './names.js';

const ms = (time) => `${Math.max(1, Math.round(time))} ms`;
const list = (names) => names.join(', ');

export const SCENES = [
  {
    id: 'hand-over',
    title: 'One holder',
    text: 'Three clients want one lock. The server keeps a record of its holder, and the others wait. A release is told to the waiters, so the next one need not ask again and again.',
    settings: { kind: 'lock', leaseMs: 3_000, renew: true },
    async play({ ada, ben, cleo, step, until, beat, serverSays }) {
      step('Ada asks, and holds the lock.');
      ada.ask();
      await until(() => ada.phase === 'holds' && serverSays('Ada'));
      await beat(800);
      step('Ben and Cleo ask, and wait.');
      ben.ask();
      cleo.ask();
      await until(() => ben.calls > 0 && cleo.calls > 0 && ben.phase === 'waits' && cleo.phase === 'waits');
      await beat(1_500);
      step('Ada writes to the stores, and releases.');
      ada.finish();
      await until(() => ben.phase === 'holds' || cleo.phase === 'holds');
      const [next, last] = ben.phase === 'holds' ? [ben, cleo] : [cleo, ben];
      await until(() => serverSays(next.name));
      await beat(1_500);
      step(`${next.name} does the same.`);
      next.finish();
      await until(() => last.phase === 'holds');
      await beat(1_000);
      last.finish();
      await until(() => last.phase === 'idle');
      const took = next.grantedAt - ada.releasedAt;
      return `Three clients, one holder at each moment, and three rising tokens. ${next.name} had the lock ${ms(took)} after Ada released it.`;
    },
  },
  {
    id: 'killed',
    title: 'Killed holder',
    text: 'A lock is a lease: it is held for a time, and renewed while its holder lives. Who is killed renews nothing and releases nothing.',
    settings: { kind: 'lock', leaseMs: 2_000, renew: true },
    async play({ ada, ben, step, until, beat, serverSays }) {
      step('Ada holds the lock, and renews it. Ben waits.');
      ada.ask();
      await until(() => ada.phase === 'holds');
      const renewed = renewal(ada);
      ben.ask();
      await until(() => ben.phase === 'waits' && renewed() && serverSays('Ada'));
      await beat(1_500);
      step('Ada is killed, in the middle of its work.');
      ada.kill();
      const killed = performance.now();
      await until(() => ben.phase === 'holds');
      const took = performance.now() - killed;
      await until(() => serverSays('Ben'));
      step('The record has ended by itself, and Ben holds the lock.');
      await beat(1_500);
      ben.finish();
      await until(() => ben.phase === 'idle');
      return `Nobody cleaned up after Ada. Its lease of 2 s ended by itself, and Ben held the lock ${seconds(took)} after the kill.`;
    },
  },
  {
    id: 'paused',
    title: 'Late write',
    text: 'Ada looks at its lease, finds it valid, and is stopped right then: by a garbage collection, a full host, a closed laptop. When it goes on, its next step is the write. No lock can stop that. A store that compares fencing tokens can.',
    settings: { kind: 'lock', leaseMs: 1_500, renew: true },
    async play({ ada, ben, stores, step, until, beat, serverSays }) {
      step('Ada holds the lock, and has read the balance: 100.');
      ada.ask();
      await until(() => ada.phase === 'holds' && serverSays('Ada'));
      const token = ada.token;
      await beat(800);
      step('Ada stands still, between its last look and its write of 110.');
      ada.pause();
      await until(() => ada.isPaused);
      ben.ask({ workMs: 600 });
      await until(() => ben.phase === 'holds');
      step('Ada’s lease has ended. Ben takes the lock, and adds 25: 125.');
      await until(() => ben.phase === 'idle' && ben.written.length === 1);
      await beat(1_000);
      step('Ada goes on, and writes 110.');
      await ada.goOn();
      await until(() => ada.written.length > 0);
      const [first] = ada.written;
      await until(() => ada.written.length > 1 && ada.phase === 'idle');
      step('Ada was refused, so it takes the lock again, reads 125, and writes 135.');
      const lost = stores.unfenced.missing;
      const fenced = `The fenced store ${first.fenced} token ${numberOf(token)}, since it had seen ${numberOf(ben.token)}`;
      return `${fenced}: nothing is lost there, ${stores.fenced.balance} is right. The other store took the late write, and Ben’s ${lost} are lost: ${stores.unfenced.balance}.`;
    },
  },
  {
    id: 'fairness',
    title: 'Taking turns',
    text: 'Four clients take two turns each, and ask again as soon as they have released. With a plain lock whoever asks first has it. A fair lock has a queue on the server.',
    settings: { kind: 'lock', leaseMs: 3_000, renew: true },
    async play({ reset, ada, ben, cleo, dan, all, history, server, step, until, beat }) {
      const orders = {};
      for (const kind of ['lock', 'fair']) {
        await reset({ kind });
        step(
          kind === 'lock'
            ? 'A plain lock: Ada holds it, Ben, Cleo and Dan ask in this order.'
            : 'The same with a fair lock.',
        );
        ada.ask({ turns: 2, workMs: 250, isTold: true });
        await until(() => ada.phase === 'holds');
        for (const client of [ben, cleo, dan]) {
          client.ask({ turns: 2, workMs: 250 });
          // The client has made its attempt, and is in the queue if the kind has one.
          await until(() => client.calls >= 2 && (kind === 'lock' || server.queue.includes(client.name)));
        }
        await beat(800);
        ada.finish();
        await until(() => grants(history).length === 8 && all.every(({ phase }) => phase === 'idle'));
        orders[kind] = { order: grants(history).map(({ lane }) => lane), overtaken: overtakings(history) };
        await beat(1_200);
      }
      const { lock, fair } = orders;
      const plain = lock.overtaken === 0 ? 'in order, by luck' : `${lock.overtaken} times somebody was overtaken`;
      return `Plain lock: ${list(lock.order)}; ${plain}. Fair lock: ${list(fair.order)}; ${fair.overtaken === 0 ? 'in order of arrival' : `${fair.overtaken} were overtaken`}.`;
    },
  },
  {
    id: 'cut-off',
    title: 'Cut off',
    text: 'Ada holds a renewed lease, and its line to the server is cut. It hears nothing, and need not: it has a deadline, counted from before it asked, that comes before the record’s end.',
    settings: { kind: 'lock', leaseMs: 2_000, renew: true },
    async play({ ada, ben, step, until, beat, serverSays }) {
      step('Ada holds the lock. Ben waits.');
      ada.ask();
      await until(() => ada.phase === 'holds');
      const renewed = renewal(ada);
      ben.ask();
      await until(() => ben.phase === 'waits' && renewed() && serverSays('Ada'));
      await beat(1_200);
      step('Ada is cut off. Its renewals fail, and it works on until its deadline.');
      ada.cut(true);
      await until(() => ada.phase === 'lost');
      step('Ada’s deadline has come: it knows that its lease is lost, and stops.');
      await until(() => ben.phase === 'holds');
      const gap = ben.grantedAt - ada.lostAt;
      await until(() => serverSays('Ben'));
      step('Then the record ends, and Ben holds the lock.');
      await beat(1_500);
      ada.cut(false);
      ben.finish();
      await until(() => ben.isResting && ada.isResting);
      return `Ada stopped believing ${ms(gap)} before Ben held the lock. There was no moment at which both believed, though Ada could ask nobody.`;
    },
  },
  {
    id: 'data-lost',
    title: 'Lost data',
    text: 'A server that is away for less than a lease costs nothing. One that comes back without its data may grant the lock twice; the first holder hears of it at its next renewal. Tokens follow the server’s clock, so they rise all the same.',
    settings: { kind: 'lock', leaseMs: 4_000, renew: true },
    async play({ ada, ben, stage, history, step, until, beat, serverSays }) {
      step('Ada holds the lock. Ben waits.');
      ada.ask();
      await until(() => ada.phase === 'holds');
      ben.ask();
      await until(() => ben.phase === 'waits' && ben.calls > 1 && serverSays('Ada'));
      const token = ada.token;
      await beat(800);
      step('The server is stopped. Ada goes on until its deadline.');
      stage.stop(true);
      const calls = ada.calls;
      await until(() => ada.calls > calls);
      await beat(300);
      step('It is back in time: Ada’s lease is renewed, and nothing is lost.');
      const renewed = renewal(ada);
      stage.stop(false);
      await until(renewed);
      await beat(800);
      // Continues right after a renewal, so Ben makes the next call.
      await until(renewal(ada));
      step('The server loses all its data. Ada does not know yet.');
      await stage.loseData();
      await until(() => ben.phase === 'holds');
      step('Ben asks again, and is granted the lock. For now both believe that they hold it.');
      await until(() => ada.phase !== 'holds');
      step('Ada’s renewal finds Ben’s record: Ada stops.');
      const both = bothBelieved(history, 'Ada', 'Ben');
      await beat(1_200);
      ben.finish();
      await until(() => ben.isResting && ada.isResting);
      const rises = ben.token > token ? 'higher than' : 'not higher than';
      return `Both believed for ${seconds(both)}, until Ada’s next renewal. Ben’s token is ${rises} Ada’s, although the server had forgotten that, so a fenced store would have refused Ada from then on.`;
    },
  },
];

/** Returns a function that returns whether a client's lease was renewed since this call. */
function renewal(client) {
  const { until } = client;
  // Two readings of one deadline differ by less than this.
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
