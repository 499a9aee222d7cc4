import { createHash } from "node:crypto";

/** Numbers from 0 to 1, the same for the same seed. */
export const randomOf = (seed) => {
  let count = 0;
  return () => createHash("sha1").update(`${seed} ${count++}`).digest().readUInt32BE() / 2 ** 32;
};
