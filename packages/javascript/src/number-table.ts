const SLOTS = 256;
const EMPTY = -1;

/**
 * A map from ids to values. The ids ascend, and each is set once.
 *
 * A `Map` would do the same, but values that passed through a busy `Map` stayed alive until the next full garbage
 * collection (measured with `node --trace-gc` and the benchmark). Here each id has a slot; only an id whose slot is
 * occupied goes into a `Map`.
 */
export class NumberTable<T> {
  readonly #ids = new Float64Array(SLOTS).fill(EMPTY);
  readonly #values: (T | undefined)[] = new Array(SLOTS).fill(undefined);
  readonly #others = new Map<number, T>();

  get(id: number): T | undefined {
    const slot = id % SLOTS;
    return this.#ids[slot] === id ? this.#values[slot] : this.#others.get(id);
  }

  set(id: number, value: T): void {
    const slot = id % SLOTS;
    if (this.#ids[slot] === EMPTY) {
      this.#ids[slot] = id;
      this.#values[slot] = value;
    } else {
      this.#others.set(id, value);
    }
  }

  /** Removes a value. Returns whether there was one. */
  delete(id: number): boolean {
    const slot = id % SLOTS;
    if (this.#ids[slot] !== id) return this.#others.delete(id);
    this.#ids[slot] = EMPTY;
    this.#values[slot] = undefined;
    return true;
  }

  /** Iterates over all values, in no particular order. */
  *values(): Generator<T> {
    for (const value of this.#values) {
      if (value !== undefined) yield value;
    }
    yield* this.#others.values();
  }

  clear(): void {
    this.#ids.fill(EMPTY);
    this.#values.fill(undefined);
    this.#others.clear();
  }
}
