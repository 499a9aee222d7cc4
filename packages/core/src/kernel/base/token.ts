import { v4 } from "uuid";

/** A random 128-bit token (UUID v4): proof of holding, or the id of an operation. */
export const newToken = (): string =>
  // Changes no character: it makes one flat string of the twenty pieces that Node concatenates.
  v4().toLowerCase();
