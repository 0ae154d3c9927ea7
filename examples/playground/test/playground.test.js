// Tests the page in Chromium: its six scenes, the actions of a visitor, the keyboard, and accessibility by axe-core.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { after, before, describe, test } from 'node:test';
import { openPage, startBrowser, startPlayground } from './browser.js';

const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
const TIMEOUT_MS = 60_000;

let playground;
let browser;

before(async () => {
  [playground, browser] = await Promise.all([startPlayground(), startBrowser()]);
});

after(async () => {
  await browser?.close();
  // The playground must end cleanly with Ctrl-C.
  assert.equal(await playground?.stop(), 0);
});

/** Runs a test in a new page. Errors and warnings of the page fail the test. */
async function visit(options, body) {
  const { page, problems, close } = await openPage(browser, playground.url, options);
  page.setDefaultTimeout(TIMEOUT_MS);
  try {
    await body(page);
    assert.deepEqual(problems, []);
  } finally {
    await close();
  }
}

const isOver = () => !window.playground.tour.isPlaying && !document.getElementById('result').hidden;

/** Returns the texts that the page shows, and its history. */
function facts(page) {
  return page.evaluate(() => {
    const { stage } = window.playground;
    const texts = (selector) => Array.from(document.querySelectorAll(selector), ({ textContent }) => textContent);
    return {
      result: document.getElementById('result-text').textContent,
      steps: texts('#steps li'),
      log: texts('#log li').reverse(),
      spans: stage.history.spans,
      stores: Object.fromEntries(
        ['fenced', 'unfenced'].map((id) => [
          id,
          {
            balance: Number(document.querySelector(`#${id} .balance`).textContent),
            writes: texts(`#${id} .writes li`).reverse(),
          },
        ]),
      ),
    };
  });
}

const end = ({ to, until }) => Math.min(to ?? Infinity, until);
const holds = ({ spans }, who) => spans.filter(({ kind, lane }) => kind === 'holds' && (who ?? lane) === lane);
const order = (shown) => holds(shown).map(({ lane }) => lane);

/** Returns the time for which at least `count` clients believed at once that they hold the lock. */
function believedAtOnce(spans, count) {
  const changes = spans.flatMap((span) => [
    { at: span.from, by: 1 },
    { at: Math.max(span.from, end(span)), by: -1 },
  ]);
  changes.sort((a, b) => a.at - b.at || a.by - b.by);
  let [now, sum] = [0, 0];
  changes.forEach(({ at, by }, i) => {
    now += by;
    if (now >= count && i + 1 < changes.length) sum += changes[i + 1].at - at;
  });
  return sum;
}

function assertTokensRise(shown) {
  const tokens = holds(shown).map(({ token }) => token);
  assert.deepEqual(
    tokens,
    tokens.toSorted((a, b) => a - b),
  );
  assert.equal(new Set(tokens).size, tokens.length);
}

describe('the tour', () => {
  let visited;

  before(async () => {
    visited = await openPage(browser, playground.url);
    visited.page.setDefaultTimeout(TIMEOUT_MS);
  });

  after(() => visited?.close());

  /**
   * Plays a scene and checks it. Repeats a scene that was slow, at most twice, because another program may have kept
   * the processors busy.
   */
  async function play(scene, check, isSlow = () => false) {
    const { page, problems } = visited;
    for (let repeats = 2; ; repeats -= 1) {
      await page.click(`#tab-${scene}`);
      await page.click('#play');
      await page.waitForFunction(isOver);
      // The page shows all changes in the next frame.
      await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
      const shown = await facts(page);
      check(shown);
      assert.deepEqual(problems, []);
      const slow = isSlow(shown);
      if (!slow) return;
      assert.ok(repeats > 0, `slow three times: ${slow}`);
    }
  }

  test('one holder: each release hands the lock over to a waiter', () =>
    play(
      'hand-over',
      (shown) => {
        assert.equal(order(shown)[0], 'Ada');
        assert.deepEqual(order(shown).toSorted(), ['Ada', 'Ben', 'Cleo']);
        assert.equal(believedAtOnce(holds(shown), 2), 0);
        assertTokensRise(shown);
        assert.match(shown.result, /had the lock \d+ ms after Ada released it/);
        assert.equal(shown.stores.fenced.balance, 140);
        assert.equal(shown.stores.unfenced.balance, 140);
      },
      (shown) => {
        // The waiters were notified of the release. With polls alone, about one hand-over in four is slower.
        const took = holds(shown)[1].from - holds(shown)[0].to;
        return took >= 300 && `a hand-over of ${took} ms`;
      },
    ));

  test('the lease of a killed holder ends by itself, and a waiter has the lock', () =>
    play('killed', (shown) => {
      assert.deepEqual(order(shown), ['Ada', 'Ben']);
      assert.equal(believedAtOnce(holds(shown), 2), 0);
      assertTokensRise(shown);
      const [ada, ben] = holds(shown);
      // Ada's record lasted beyond Ada's deadline, which comes first.
      assert.ok(ben.from > ada.until, `${ben.from} > ${ada.until}`);
      assert.ok(shown.log.some((line) => line.endsWith('Ada is killed.')));
      assert.match(shown.result, /Ben held the lock \d\.\d\d s after the kill/);
    }));

  test('the late write of a paused holder is refused by the fenced store and damages the other', () =>
    play('paused', (shown) => {
      assert.deepEqual(order(shown), ['Ada', 'Ben', 'Ada']);
      assertTokensRise(shown);
      // By their clocks, the two never held the lock at once. But Ada was paused beyond its deadline, just before its
      // write.
      assert.equal(believedAtOnce(holds(shown), 2), 0);
      const paused = shown.spans.find(({ kind }) => kind === 'paused');
      const [ada, ben] = holds(shown);
      assert.ok(paused.from < end(ada) && end(ben) < paused.to);
      const { fenced, unfenced } = shown.stores;
      assert.deepEqual(fenced.writes, [
        '▲ Ben writes 125, accepted: token 2',
        '● Ada writes 110, refused: token 1 < 2',
        '● Ada writes 135, accepted: token 3',
      ]);
      assert.equal(fenced.balance, 135);
      assert.deepEqual(unfenced.writes, [
        '▲ Ben writes 125, accepted: token 2',
        '● Ada writes 110, accepted: token 1, 25 lost',
      ]);
      assert.equal(unfenced.balance, 110);
      assert.match(shown.result, /refused token 1, because the highest one was 2.*Ben’s 25 are lost: 110/);
    }));

  test('a fair lock is granted in order of arrival', () =>
    play('fairness', (shown) => {
      // The history has only the second half of the scene.
      const turns = ['Ada', 'Ben', 'Cleo', 'Dan', 'Ada', 'Ben', 'Cleo', 'Dan'];
      assert.deepEqual(order(shown), turns);
      assert.equal(believedAtOnce(holds(shown), 2), 0);
      assertTokensRise(shown);
      assert.ok(shown.result.includes(`Fair lock: ${turns.join(', ')}; in order of arrival.`), shown.result);
      const plain = shown.result.match(/Plain lock: ([^;]*);/)[1].split(', ');
      assert.deepEqual(plain.toSorted(), turns.toSorted());
    }));

  test('a client that is cut off knows that its lease is lost before another is granted the lock', () =>
    play('cut-off', (shown) => {
      assert.deepEqual(order(shown), ['Ada', 'Ben']);
      assert.equal(believedAtOnce(holds(shown), 2), 0);
      const [ada, ben] = holds(shown);
      const cut = shown.spans.find(({ kind }) => kind === 'cut');
      assert.ok(cut.from < end(ada) && end(ada) < ben.from && ben.from < cut.to);
      assert.ok(shown.log.some((line) => line.includes('Ada knows that its lease is lost: its deadline passed')));
      assert.match(shown.result, /Ada stopped believing \d+ ms before Ben held the lock/);
      assertTokensRise(shown);
    }));

  test('an outage within the lease costs nothing; lost data may make two holders until the next renewal; tokens rise', () =>
    play(
      'data-lost',
      (shown) => {
        assert.deepEqual(order(shown), ['Ada', 'Ben']);
        assertTokensRise(shown);
        const [ada] = holds(shown);
        const stopped = shown.spans.find(({ kind }) => kind === 'stopped');
        assert.ok(ada.from < stopped.from && stopped.to < end(ada));
        assert.ok(believedAtOnce(holds(shown), 2) > 0);
        assert.ok(
          shown.log.some((line) =>
            line.includes('Ada knows that its lease is lost: the record is another client’s now'),
          ),
        );
        assert.match(shown.result, /Both believed for \d\.\d\d s.*Ben’s token is higher than Ada’s/);
      },
      (shown) => {
        // The limit is a third of the lease of 4 s, and time for calls on a busy machine.
        const both = believedAtOnce(holds(shown), 2);
        return both >= 4_000 / 3 + 700 && `two believed for ${both} ms`;
      },
    ));

  test('a stopped scene starts again from the beginning', async () => {
    const { page } = visited;
    await page.click('#tab-hand-over');
    await page.click('#play');
    await page.waitForFunction(() => window.playground.stage.clients.Ada.phase === 'holds');
    await page.click('#play');
    await page.waitForFunction(() => window.playground.stage.all.every(({ phase }) => phase === 'idle'));
    assert.equal(await page.$eval('#result', ({ hidden }) => hidden), true);
    await play('hand-over', (shown) => {
      assert.deepEqual(order(shown).toSorted(), ['Ada', 'Ben', 'Cleo']);
    });
  });

  test('screen readers get few announcements of a scene', async () => {
    const { page } = visited;
    await page.evaluate(() => {
      window.announced = [];
      const announcer = document.getElementById('announcer');
      new MutationObserver(() => window.announced.push(announcer.textContent)).observe(announcer, { childList: true });
    });
    await play('paused', () => {});
    await page.waitForFunction(() => window.announced.at(-1)?.startsWith('What you just saw: '));
    const announced = await page.evaluate(() => window.announced);
    assert.ok(announced.length <= 6, announced.join('\n'));
  });

  test('with reduced motion the timeline moves once a second', async () => {
    const { page } = visited;
    await page.emulateMediaFeatures([{ name: 'prefers-reduced-motion', value: 'reduce' }]);
    const times = await page.evaluate(
      () =>
        new Promise((resolve) => {
          const times = [];
          const observer = new MutationObserver(() => {
            // The time of the frame itself, because the frame may be drawn late.
            times.push(document.timeline.currentTime);
            if (times.length < 3) return;
            observer.disconnect();
            resolve(times);
          });
          observer.observe(document.querySelector('#timeline > g:last-child'), { attributeFilter: ['transform'] });
        }),
    );
    assert.ok(times[2] - times[1] > 999, `${times}`);
  });
});

describe('a visitor', () => {
  const KINDS = { mutex: 1, fair: 1, semaphore: 2, multi: 1 };

  test('lets all clients contend for each kind of lock, which never has too many holders', () =>
    visit({}, async (page) => {
      for (const [kind, most] of Object.entries(KINDS)) {
        await contend(page, kind, 4, most);
        const shown = await facts(page);
        assert.equal(believedAtOnce(holds(shown), most + 1), 0, kind);
        assert.ok(
          shown.spans.some((span) => span.kind === 'record' && span.who !== '?'),
          kind,
        );
      }
    }));

  test('sees readers together and writers exclusively', () =>
    visit({}, async (page) => {
      await contend(page, 'readWrite', 6, 2);
      const all = holds(await facts(page));
      const writes = all.filter(({ lane }) => lane === 'Ada' || lane === 'Ben');
      const reads = all.filter(({ lane }) => lane === 'Cleo' || lane === 'Dan');
      for (const write of writes) {
        for (const other of all) if (other !== write) assert.equal(believedAtOnce([write, other], 2), 0);
      }
      assert.ok(writes.every(({ token }) => token > 0) && reads.every(({ token }) => token === null));
    }));

  test('pauses, cuts off, kills and starts a client by the buttons of its frame', () =>
    visit({}, async (page) => {
      const ada = await page.waitForFrame((frame) => frame.url().endsWith('#Ada'));
      const waitForState = (text) =>
        ada.waitForFunction((is) => document.getElementById('believes').textContent === is, {}, text);
      await page.select('#lease', '10000');
      await page.waitForFunction(() =>
        window.playground.stage.all.every(({ settings }) => settings.leaseMs === 10_000),
      );
      await waitForState('idle');
      await ada.click('#acquire');
      await waitForState('holds the lock');
      await ada.click('#pause');
      await waitForState('paused');
      await ada.click('#pause');
      await page.waitForFunction(() => window.playground.stage.clients.Ada.written.length === 1);
      await waitForState('idle');
      await ada.click('#cut');
      await ada.click('#acquire');
      await waitForState('waits');
      await ada.click('#cut');
      await waitForState('holds the lock');
      await ada.click('#kill');
      await waitForState('killed');
      await ada.click('#kill');
      await waitForState('idle');
    }));

  /** Lets all clients contend until `grants` leases have ended and `together` clients have held the lock at once. */
  async function contend(page, kind, grants, together) {
    await page.select('#kind', kind);
    await page.waitForFunction(
      (is) =>
        window.playground.stage.settings.kind === is && window.playground.stage.all.every((c) => c.phase === 'idle'),
      {},
      kind,
    );
    await page.click('#repeat');
    await page.waitForFunction(
      (count, believers) => {
        const { history } = window.playground.stage;
        const all = history.spans.filter((span) => span.kind === 'holds');
        const areTogether = all.some(({ from }) => history.believersAt(from).length === believers);
        return areTogether && all.filter(({ to }) => to).length >= count;
      },
      {},
      grants,
      together,
    );
    await page.click('#repeat');
  }
});

describe('the keyboard', () => {
  test('suffices: Tab, arrows and Enter control the tour and the clients', () =>
    visit({}, async (page) => {
      const focus = () => page.evaluate(() => document.activeElement.id);
      const tabTo = async (id) => {
        for (let i = 0; i < 60 && (await focus()) !== id; i++) await page.keyboard.press('Tab');
        assert.equal(await focus(), id);
      };
      const scenes = ['hand-over', 'killed', 'paused', 'fairness', 'cut-off', 'data-lost'];
      await tabTo('tab-hand-over');
      for (const scene of [...scenes.slice(1), scenes[0]]) {
        await page.keyboard.press('ArrowRight');
        assert.equal(await focus(), `tab-${scene}`);
        assert.equal(await page.$eval(`#tab-${scene}`, (tab) => tab.getAttribute('aria-selected')), 'true');
      }
      await page.keyboard.press('End');
      assert.equal(await focus(), 'tab-data-lost');
      await page.keyboard.press('Home');
      await tabTo('play');
      await page.keyboard.press('Enter');
      await page.waitForFunction(isOver);
      assert.equal(await focus(), 'play');
      await tabTo('next');
      await page.keyboard.press('Enter');
      assert.equal(await focus(), 'play');
      assert.match(await page.$eval('#title', ({ textContent }) => textContent), /^2\. /);
      await page.keyboard.press('Enter');
      await page.waitForFunction(() => window.playground.stage.clients.Ada.phase === 'holds');
      await page.keyboard.press('Enter');
      await page.waitForFunction(() => window.playground.stage.all.every(({ phase }) => phase === 'idle'));

      await tabTo('Ben');
      // The first button of a frame does what it says, which follows the state of the page by a message.
      const offers = (action) => {
        const button = window.playground.stage.clients.Ben.document.getElementById('acquire');
        return button.textContent === action && button.ariaDisabled === 'false';
      };
      await page.waitForFunction(offers, {}, 'Acquire');
      await page.keyboard.press('Enter');
      await page.waitForFunction(offers, {}, 'Release');
      await page.keyboard.press('Enter');
      await page.waitForFunction(offers, {}, 'Acquire');
    }));
});

describe('axe-core finds no violation, and no page scrolls horizontally', () => {
  const VIEWS = {
    desktop: { width: 1280, scheme: 'light' },
    'dark desktop': { width: 1280, scheme: 'dark' },
    phone: { width: 390, scheme: 'light' },
    'dark phone': { width: 390, scheme: 'dark' },
  };

  test(Object.keys(VIEWS).join(', '), () =>
    visit({}, async (page) => {
      // Gives every part of the page something to show.
      await page.evaluate(async () => {
        const { stage } = window.playground;
        const { Ada, Ben, Cleo, Dan } = stage.clients;
        Ada.acquire();
        await stage.until(() => Ada.phase === 'holds');
        Ben.acquire();
        Cleo.cut(true);
        Dan.kill();
        await stage.until(() => Ben.phase === 'waits');
        document.getElementById('spans').open = true;
      });
      await Promise.all(page.frames().map((frame) => frame.addScriptTag({ path: AXE })));
      for (const [name, { width, scheme }] of Object.entries(VIEWS)) {
        await page.setViewport({ width, height: 900 });
        await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
        const found = await page.evaluate(async () => (await window.axe.run()).violations);
        const violations = found.map(
          ({ id, impact, nodes }) => `${impact} ${id}: ${nodes.map(({ html }) => html).join(' ')}`,
        );
        assert.deepEqual(violations, [], name);
        for (const frame of page.frames()) {
          const by = await frame.evaluate(({ documentElement: it } = document) => it.scrollWidth - it.clientWidth);
          assert.equal(by, 0, `${name}: ${frame.url()} scrolls`);
        }
      }
    }),
  );

  test('the dark theme applies to the frames too, and is remembered', () =>
    visit({}, async (page) => {
      const backgrounds = () =>
        Promise.all(
          page.frames().map((frame) => frame.evaluate(() => getComputedStyle(document.body).backgroundColor)),
        );
      const light = await backgrounds();
      await page.select('#theme', 'dark');
      const dark = await backgrounds();
      dark.forEach((background, i) => {
        assert.notEqual(background, light[i]);
      });
      await page.reload();
      await page.waitForFunction(() => window.playground?.stage.all.every(({ phase }) => phase === 'idle'));
      assert.deepEqual(await backgrounds(), dark);
    }));
});
