// Two stores with the same account. One checks fencing tokens, the other does not.

export class Store {
  #isFenced;
  #opening;
  balance = 0;
  /** The highest token that it has seen. */
  seen = 0;
  /** What the balance would be without lost updates: what was there, and all that was taken. */
  expected = 0;
  /** The newest first. */
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

  /** Takes a new balance, which its writer made of the one that it has read by adding something. */
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

  /** What was written, told to be taken, and is not there. */
  get missing() {
    return this.expected - this.balance;
  }
}
