// How a worker stands still: nothing of its program runs, no timer and no answer, and its clock goes on.

const SLICE_MS = 20;

/** Stands still until the page has set `key` on the server to `id`. */
export function standStill({ key, id }) {
  while (!isOver(key, id)) sleep(SLICE_MS);
}

/** Asks without giving up the thread. It is no request of the client, so no line is in its way. */
function isOver(key, id) {
  const request = new XMLHttpRequest();
  request.open('GET', `/get/${encodeURIComponent(key)}`, false);
  try {
    request.send();
    return JSON.parse(request.responseText).result === id;
  } catch {
    // The server is away for good.
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

/** Something to sleep on: a page that is not isolated has no `SharedArrayBuffer`, but for WebAssembly's. */
function sharedCell() {
  try {
    return new Int32Array(new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }).buffer);
  } catch {
    return undefined;
  }
}
