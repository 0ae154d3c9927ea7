// Starts the playground and a Chromium for tests.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import puppeteer from 'puppeteer-core';

const RUN = fileURLToPath(new URL('../run.py', import.meta.url));
const CHROMIUM = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

/** Starts the playground. Returns its address and a function that ends it. */
export async function startPlayground() {
  const program = spawn(process.env.PYTHON ?? 'python3', [RUN], { stdio: ['ignore', 'pipe', 'ignore'] });
  const ended = once(program, 'exit');
  for await (const line of createInterface(program.stdout)) {
    const url = line.match(/http:\/\/\S+?(?=;)/)?.[0];
    if (url === undefined) continue;
    return {
      url,
      async stop() {
        program.kill('SIGINT');
        const [status] = await ended;
        return status;
      },
    };
  }
  throw new Error('the playground did not start: is it built?');
}

export async function startBrowser() {
  const executablePath = CHROMIUM.find((path) => path && existsSync(path));
  if (executablePath === undefined) throw new Error('no Chromium found; CHROMIUM says where one is');
  return puppeteer.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'], headless: true });
}

/** Opens a page of the playground. Returns it with a list of the problems in it so far. */
export async function openPage(browser, url, { width = 1280, height = 1000, dark = false, query = '?pace=0.15' } = {}) {
  // Each context has its own storage.
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }]);
  const problems = [];
  page.on('pageerror', (error) => problems.push(String(error)));
  page.on('console', (message) => {
    if (['error', 'warn'].includes(message.type())) problems.push(message.text());
  });
  await page.goto(url + query);
  await page.waitForFunction(() => window.playground?.stage.all.every(({ phase }) => phase === 'idle'));
  return { page, problems, close: () => context.close() };
}
