/** Returns a generator of numbers from 0 to 1, the same for the same seed (xorshift of 32 bits). */
export const seeded = (seed: number): (() => number) => {
  // Zero would stay zero. The product makes neighbouring seeds begin differently.
  let state = Math.imul(seed ^ 0x5bd1e995, 0x2545f491) | 1;
  const next = (): number => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
  for (let i = 0; i < 8; i++) next();
  return next;
};

/** Returns a generator of whole numbers from 0 to below a limit. */
export const seededBelow = (seed: number): ((below: number) => number) => {
  const next = seeded(seed);
  return (below) => Math.floor(next() * below);
};
