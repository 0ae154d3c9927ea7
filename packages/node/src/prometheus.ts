// Reads the metrics of the core, which come in Prometheus' text format.

/** One number of a metric. */
export interface Sample {
  readonly name: string;
  readonly labels: ReadonlyMap<string, string>;
  readonly value: number;
}

/** What is said of a metric. */
export interface Head {
  readonly meaning: string;
  readonly type: string;
}

/**
 * All numbers of a text. A label's value may have any character but a line feed, also those that end a line for
 * JavaScript.
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

/** What a text says of its metrics, by name. */
export function headsOf(text: string): Map<string, Head> {
  const heads = text.matchAll(/^# HELP (\w+) (.*)\n# TYPE \1 (\w+)$/gm);
  return new Map(Array.from(heads, ([, name, meaning, type]) => [name as string, { meaning, type } as Head]));
}

function unescaped(value: string): string {
  return value.replace(/\\(.)/g, (_, one: string) => (one === 'n' ? '\n' : one));
}
