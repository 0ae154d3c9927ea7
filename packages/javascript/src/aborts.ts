interface Waiting {
  readonly calls: Set<() => void>;
  readonly listener: () => void;
}

/** The waiters of each signal. One listener serves them all, as a runtime takes many on one signal for a leak. */
const waiting = new WeakMap<AbortSignal, Waiting>();

/** Calls once the signal aborts, or at once if it has, unless what it returns was called before. */
export function whenAborted(signal: AbortSignal, call: () => void): () => void {
  const own = waiting.get(signal) ?? made(signal);
  own.calls.add(call);
  if (waiting.get(signal) !== own) listen(signal, own);
  // One that has aborted tells nobody any more.
  else if (signal.aborted) own.listener();
  return () => {
    own.calls.delete(call);
    if (own.calls.size === 0) stopListening(signal, own);
  };
}

function made(signal: AbortSignal): Waiting {
  const calls = new Set<() => void>();
  const listener = () => {
    waiting.delete(signal);
    for (const call of [...calls]) {
      if (calls.delete(call)) call();
    }
  };
  return { calls, listener };
}

/** A signal may abort in the midst of this: where it is asked whether it has, and where it is listened to. */
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

/** A signal of one's own may throw; the waiting caller has to be answered nevertheless. */
function stopListening(signal: AbortSignal, { listener }: Waiting): void {
  // It has aborted.
  if (waiting.get(signal)?.listener !== listener) return;
  waiting.delete(signal);
  try {
    signal.removeEventListener('abort', listener);
  } catch {
    // An abort of what is answered changes nothing.
  }
}
