interface Waiting {
  readonly calls: Set<() => void>;
  readonly listener: () => void;
}

/** The waiters of each signal. One listener serves them all, as a runtime takes many on one signal for a leak. */
const waiting = new WeakMap<AbortSignal, Waiting>();

/** Calls once the signal aborts, unless what it returns was called before. */
export function whenAborted(signal: AbortSignal, call: () => void): () => void {
  const { calls } = waiting.get(signal) ?? listen(signal);
  calls.add(call);
  return () => {
    calls.delete(call);
    if (calls.size === 0) stopListening(signal);
  };
}

function listen(signal: AbortSignal): Waiting {
  const calls = new Set<() => void>();
  const listener = () => {
    waiting.delete(signal);
    for (const call of [...calls]) call();
  };
  signal.addEventListener('abort', listener, { once: true });
  const made = { calls, listener };
  waiting.set(signal, made);
  return made;
}

/** A signal of one's own may throw; the waiting caller has to be answered nevertheless. */
function stopListening(signal: AbortSignal): void {
  const left = waiting.get(signal);
  // It has aborted.
  if (left === undefined) return;
  waiting.delete(signal);
  try {
    signal.removeEventListener('abort', left.listener);
  } catch {
    // An abort of what is answered changes nothing.
  }
}
