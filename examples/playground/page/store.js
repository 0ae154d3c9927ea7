// Two stores with the same account. One checks fencing tokens, the other does not.

export class Store {
  #isFenced;
  #opening;
  balance = 0;
  /** The highest token that the store has seen. */
  highestToken = 0;
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
    this.highestToken = 0;
    this.writes = [];
  }

  /** Writes a new balance. The writer has computed it by adding an amount to the balance that it read before. */
  write({ who, value, amount, token }) {
    const result = { who, value, token, lost: 0, highestToken: this.highestToken, outcome: 'accepted' };
    this.writes.unshift(result);
    if (this.#isFenced && token < this.highestToken) {
      result.outcome = 'refused';
      return result;
    }
    this.highestToken = Math.max(this.highestToken, token);
    result.lost = this.balance - (value - amount);
    this.expected += amount;
    this.balance = value;
    return result;
  }

  /** The sum of accepted amounts that are missing in the balance. */
  get missing() {
    return this.expected - this.balance;
  }
}
