import { v4 } from "uuid";

/** A random 128-bit token (UUID v4): proof of holding, or the id of an operation. */
export const newToken = (): string =>
  // Node puts it together from twenty pieces. As one piece it costs less wherever it goes.
  v4().toLowerCase();
