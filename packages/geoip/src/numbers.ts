const firstSlots = 1 << 12;
const firstWords = 1 << 14;
/** Words of a slot: the hash, and where the entry starts among the entries (0: the slot is free). */
const perSlot = 2;
/** Words before an entry's bytes: their count, and its number. */
const entryHead = 2;

const slotOf = (hash: number, last: number): number => (Math.imul(hash, 0x9e3779b1) >>> 7) & last;

/**
 * A hash table of numbers for pieces of a file, keyed by their bytes. An import does a look-up for each row, and with
 * strings as keys of a Map that would take most of its time. It is flat, so that a look-up touches two places in
 * memory.
 */
export class NumbersByBytes {
  #slots = new Int32Array(perSlot * firstSlots);
  #entries = new Int32Array(firstWords);
  #entryBytes = new Uint8Array(this.#entries.buffer);
  /** Word 0 stays unused. */
  #end = 1;
  #count = 0;

  /** The number of `bytes` from `from` up to `to`; `make` gives the number of new bytes. */
  get(bytes: Uint8Array, from: number, to: number, make: () => number): number {
    let hash = 0;
    for (let index = from; index < to; index++) hash = (Math.imul(hash, 31) + bytes[index]!) | 0;
    const slots = this.#slots;
    const last = slots.length / perSlot - 1;
    let slot = slotOf(hash, last);
    for (let entry = slots[perSlot * slot + 1]!; entry > 0; entry = slots[perSlot * slot + 1]!) {
      if (slots[perSlot * slot] === hash && this.#isEqual(entry, bytes, from, to)) return this.#entries[entry + 1]!;
      slot = (slot + 1) & last;
    }
    const number = make();
    slots[perSlot * slot] = hash;
    slots[perSlot * slot + 1] = this.#append(bytes.subarray(from, to), number);
    if (2 * ++this.#count > last) this.#grow();
    return number;
  }

  #isEqual(entry: number, bytes: Uint8Array, from: number, to: number): boolean {
    if (this.#entries[entry] !== to - from) return false;
    const own = this.#entryBytes;
    const offset = 4 * (entry + entryHead) - from;
    for (let index = from; index < to; index++) if (bytes[index] !== own[index + offset]) return false;
    return true;
  }

  #append(bytes: Uint8Array, number: number): number {
    const entry = this.#end;
    this.#end += entryHead + Math.ceil(bytes.length / 4);
    if (this.#end > this.#entries.length) {
      const larger = new Int32Array(2 * this.#end);
      larger.set(this.#entries);
      this.#entries = larger;
      this.#entryBytes = new Uint8Array(larger.buffer);
    }
    this.#entries[entry] = bytes.length;
    this.#entries[entry + 1] = number;
    this.#entryBytes.set(bytes, 4 * (entry + entryHead));
    return entry;
  }

  #grow(): void {
    const old = this.#slots;
    const slots = new Int32Array(2 * old.length);
    const last = slots.length / perSlot - 1;
    for (let at = 0; at < old.length; at += perSlot) {
      if (old[at + 1] === 0) continue;
      let slot = slotOf(old[at]!, last);
      while (slots[perSlot * slot + 1]! > 0) slot = (slot + 1) & last;
      slots.set(old.subarray(at, at + perSlot), perSlot * slot);
    }
    this.#slots = slots;
  }
}
