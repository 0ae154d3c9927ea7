interface Waiting {
  readonly calls: Set<() => void>;
  readonly listener: () => void;
}

/**
 * For each signal, the calls to make when it aborts. They share one listener, because a runtime reports many listeners
 * on one signal as a leak.
 */
const waiting = new WeakMap<AbortSignal, Waiting>();

/**
 * Calls `call` when the signal aborts, or at once if the signal has aborted. Returns a function that prevents a call
 * that has not been made yet.
 */
export function whenAborted(signal: AbortSignal, call: () => void): () => void {
  const own = waiting.get(signal) ?? newWaiting(signal);
  own.calls.add(call);
  if (waiting.get(signal) !== own) listen(signal, own);
  // A signal that has aborted does not call its listeners again.
  else if (signal.aborted) own.listener();
  return () => {
    own.calls.delete(call);
    if (own.calls.size === 0) stopListening(signal, own);
  };
}

function newWaiting(signal: AbortSignal): Waiting {
  const calls = new Set<() => void>();
  const listener = () => {
    waiting.delete(signal);
    for (const call of [...calls]) {
      if (calls.delete(call)) call();
    }
  };
  return { calls, listener };
}

/**
 * Adds the listener. Custom signals run code of the program in `addEventListener` and in `aborted`, so the signal can
 * abort during this function.
 */
function listen(signal: AbortSignal, own: Waiting): void {
  waiting.set(signal, own);
  try {
    signal.addEventListener('abort', own.listener, { once: true });
  } catch (error) {
    waiting.delete(signal);
    throw error;
  }
  if (signal.aborted) own.listener();
}

/** Removes the listener. A custom signal can throw here; the waiting caller must get its reply all the same. */
function stopListening(signal: AbortSignal, { listener }: Waiting): void {
  // The listener is removed already: the signal has aborted, or this is a second call.
  if (waiting.get(signal)?.listener !== listener) return;
  waiting.delete(signal);
  try {
    signal.removeEventListener('abort', listener);
  } catch {
    // The listener stays, and does no harm: an abort after the reply changes nothing.
  }
}
