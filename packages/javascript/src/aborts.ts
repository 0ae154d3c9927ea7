interface Waiting {
  readonly calls: Set<() => void>;
  readonly listener: () => void;
}

/** The waiters of each signal. One listener serves them all, as a runtime takes many on one signal for a leak. */
const waiting = new WeakMap<AbortSignal, Waiting>();

/** Calls once the signal aborts, unless what it returns was called before. */
export function whenAborted(signal: AbortSignal, call: () => void): () => void {
  const own = waiting.get(signal) ?? listen(signal);
  own.calls.add(call);
  return () => {
    own.calls.delete(call);
    if (own.calls.size === 0) stopListening(signal, own);
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
