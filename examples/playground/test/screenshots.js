// Writes the pictures of docs/playground: scenes at their end and while they play. `pngquant` makes the files smaller.

import { execFileSync } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { openPage, startBrowser, startPlayground } from './browser.js';

const FOLDER = fileURLToPath(new URL('../../../docs/playground/', import.meta.url));

const isOver = () => !window.playground.tour.isPlaying && !document.getElementById('result').hidden;
const areTwo = () => {
  const { Ada, Ben } = window.playground.stage.clients;
  return Ada.phase === 'holds' && Ben.phase === 'holds';
};
const isCut = () => window.playground.stage.clients.Ada.phase === 'lost';

const PICTURES = [
  { name: 'late-write', scene: 'paused', height: 1100, when: isOver },
  { name: 'late-write-dark', scene: 'paused', height: 1100, dark: true, when: isOver },
  { name: 'fairness', scene: 'fairness', height: 1100, when: isOver },
  { name: 'lost-data', scene: 'data-lost', height: 1100, when: areTwo },
  { name: 'phone', scene: 'cut-off', width: 390, height: 1500, when: isCut },
  { name: 'phone-dark', scene: 'paused', width: 390, height: 1900, dark: true, when: isOver },
];

await mkdir(FOLDER, { recursive: true });
const [playground, browser] = await Promise.all([startPlayground(), startBrowser()]);
try {
  for (const { name, scene, when, ...options } of PICTURES) {
    const { page, close } = await openPage(browser, playground.url, { ...options, query: '' });
    await page.click(`#tab-${scene}`);
    await page.click('#play');
    await page.waitForFunction(when, { timeout: 60_000 });
    await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 300)));
    await page.mouse.move(0, 0);
    const path = `${FOLDER}${name}.png`;
    await page.screenshot({ path });
    execFileSync('pngquant', ['--force', '--ext', '.png', '--speed', '1', '--strip', '128', path]);
    await close();
  }
} finally {
  await browser.close();
  await playground.stop();
}
