// Parses the metrics of the core, which are in Prometheus' text format.

/** A sample of a metric. */
export interface Sample {
  readonly name: string;
  readonly labels: ReadonlyMap<string, string>;
  readonly value: number;
}

/** The header of a metric. */
export interface Head {
  readonly meaning: string;
  readonly type: string;
}

/**
 * Iterates over all samples of a text. A label's value can contain any character but a line feed, also the other
 * characters that JavaScript counts as line ends.
 */
export function* samplesOf(text: string): Generator<Sample> {
  for (const line of text.split('\n')) {
    const [, name, labels = '', value] = /^(\w+)(?:\{(.*)\})? (\S+)$/s.exec(line) ?? [];
    if (name === undefined) continue;
    const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)];
    yield {
      name,
      labels: new Map(pairs.map(([, label, escaped]) => [label as string, unescaped(escaped as string)])),
      value: Number(value),
    };
  }
}

/** Returns the headers of a text's metrics, by name. */
export function headsOf(text: string): Map<string, Head> {
  const heads = text.matchAll(/^# HELP (\w+) (.*)\n# TYPE \1 (\w+)$/gm);
  return new Map(Array.from(heads, ([, name, meaning, type]) => [name as string, { meaning, type } as Head]));
}

function unescaped(value: string): string {
  return value.replace(/\\(.)/g, (_, one: string) => (one === 'n' ? '\n' : one));
}
