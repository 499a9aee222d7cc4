import { v4 } from "uuid";

/** A random 128-bit token (UUID v4): proof of holding, or the id of an operation. */
export const newToken = (): string => v4();
