import { crc32 } from "node:zlib";

/** The CRC-32 of blocks for which it is already known. */
const known = new WeakMap<Uint8Array, number>();

/** Records the CRC-32 of `bytes`. They must not change afterwards. */
export const noteCrc = (bytes: Uint8Array, crc: number): void => void known.set(bytes, crc);

/**
 * The CRC-32 of data with the CRC `before`, followed by `bytes`. If there are no bytes, Node's own function returns 0, whatever came
 * before.
 */
export const crcOf = (bytes: Uint8Array, before: number): number => {
  if (bytes.length === 0) return before;
  const own = known.get(bytes);
  return own === undefined ? crc32(bytes, before) : combined(before, own, bytes.length);
};

// Combines the CRCs of two parts like zlib's `crc32_combine`: polynomials over GF(2) modulo that of CRC-32, the coefficient of x^0 in the highest
// bit.
const modulus = 0xedb88320;

const product = (a: number, b: number): number => {
  let [left, sum] = [b, 0];
  for (let bit = 31; bit >= 0; bit--) {
    if ((a >>> bit) & 1) sum ^= left;
    left = left & 1 ? (left >>> 1) ^ modulus : left >>> 1;
  }
  return sum;
};

/** x^(8 × length) of the last length: nearly all blocks have the length of a chunk. */
let [lastLength, lastPower] = [0, 2 ** 31];
const powerOf = (length: number): number => {
  if (length === lastLength) return lastPower;
  [lastLength, lastPower] = [length, 2 ** 31];
  // x^8, squared for each binary digit.
  for (let [left, square] = [length, 2 ** 23]; left > 0; left = Math.floor(left / 2), square = product(square, square))
    if (left % 2 === 1) lastPower = product(square, lastPower);
  return lastPower;
};

/** `before` × x^(8 × length) + `own`. */
const combined = (before: number, own: number, length: number): number =>
  (product(powerOf(length), before) ^ own) >>> 0;
