/** Returns a generator of numbers from 0 to 1, the same for the same seed (xorshift of 32 bits). */
export const seeded = (seed) => {
  // Zero would stay zero. The product makes neighbouring seeds begin differently.
  let state = Math.imul(seed ^ 0x5bd1e995, 0x2545f491) | 1;
  const next = () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
  for (let i = 0; i < 8; i++) next();
  return next;
};
