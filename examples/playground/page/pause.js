// Pauses a worker: none of its code runs, no timers and no replies, while its clock continues.

const SLICE_MS = 20;

/** Blocks the worker until the page has set `key` on the server to `id`. */
export function blockUntilResumed({ key, id }) {
  while (!isResumed(key, id)) sleep(SLICE_MS);
}

/** Asks the server with a synchronous request, which blocks the thread. It works even while the client is cut off. */
function isResumed(key, id) {
  const request = new XMLHttpRequest();
  request.open('GET', `/get/${encodeURIComponent(key)}`, false);
  try {
    request.send();
    return JSON.parse(request.responseText).result === id;
  } catch {
    // The server has ended, so no one can end the pause.
    return true;
  }
}

function sleep(ms) {
  if (cell) {
    Atomics.wait(cell, 0, 0, ms);
    return;
  }
  const end = performance.now() + ms;
  while (performance.now() < end);
}

const cell = sharedCell();

/** Makes a shared cell for `Atomics.wait`. Without cross-origin isolation, only WebAssembly can make shared memory. */
function sharedCell() {
  try {
    return new Int32Array(new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }).buffer);
  } catch {
    return undefined;
  }
}
