import { crc32 } from "node:zlib";

/** CRC-32 of blocks whose own is known, so that nobody computes it a second time. */
const known = new WeakMap<Uint8Array, number>();

/** Says that `bytes` have this CRC-32. They must not change any more. */
export const noteCrc = (bytes: Uint8Array, crc: number): void => void known.set(bytes, crc);

/** CRC-32 of `bytes` behind what has the CRC `before`. Node's own gives 0 for bytes of which there are none, whatever came before. */
export const crcOf = (bytes: Uint8Array, before: number): number => {
  if (bytes.length === 0) return before;
  const own = known.get(bytes);
  return own === undefined ? crc32(bytes, before) : combined(before, own, bytes.length);
};

// Polynomials over GF(2) modulo that of CRC-32, the coefficient of x^0 in the highest bit. So zlib puts together the CRCs of two parts.
const modulus = 0xedb88320;
const one = 2 ** 31;

const product = (a: number, b: number): number => {
  let [left, sum] = [b, 0];
  for (let bit = 31; bit >= 0; bit--) {
    if ((a >>> bit) & 1) sum ^= left;
    left = left & 1 ? (left >>> 1) ^ modulus : left >>> 1;
  }
  return sum;
};

/** x^(2^n) for n from 0. */
const squares: number[] = [one >>> 1];
while (squares.length < 32) squares.push(product(squares.at(-1)!, squares.at(-1)!));

/** By how many bytes the last CRC was moved, and the factor for that: blocks mostly have one length. */
let [lastLength, lastFactor] = [0, one];

/** x^(8 × length). */
const factorOf = (length: number): number => {
  if (length === lastLength) return lastFactor;
  let factor = one;
  // From the third square on: eight bits a byte. The powers repeat after 2^32 − 1, so x^(2^32) is x.
  for (let [left, n] = [length, 3]; left > 0; left = Math.floor(left / 2), n++)
    if (left % 2 === 1) factor = product(squares[n % 32]!, factor);
  [lastLength, lastFactor] = [length, factor];
  return factor;
};

const combined = (before: number, own: number, length: number): number =>
  (product(factorOf(length), before) ^ own) >>> 0;
