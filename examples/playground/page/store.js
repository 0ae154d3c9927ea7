// Two stores with the same account. One checks fencing tokens, the other does not.

export class Store {
  #isFenced;
  #opening;
  balance = 0;
  /** The highest token that the store has seen. */
  seen = 0;
  /** The balance without lost updates: the opening balance and all accepted amounts. */
  expected = 0;
  /** All writes, the newest first. */
  writes = [];

  constructor(isFenced, opening = 100) {
    this.#isFenced = isFenced;
    this.#opening = opening;
    this.clear();
  }

  clear() {
    this.balance = this.expected = this.#opening;
    this.seen = 0;
    this.writes = [];
  }

  /** Writes a new balance. The writer has computed it by adding an amount to the balance that it read before. */
  write({ who, value, adds, token }) {
    const result = { who, value, token, lost: 0, seen: this.seen, outcome: 'taken' };
    this.writes.unshift(result);
    if (this.#isFenced && token < this.seen) {
      result.outcome = 'refused';
      return result;
    }
    this.seen = Math.max(this.seen, token);
    result.lost = this.balance - (value - adds);
    this.expected += adds;
    this.balance = value;
    return result;
  }

  /** The sum of accepted amounts that are missing in the balance. */
  get missing() {
    return this.expected - this.balance;
  }
}
