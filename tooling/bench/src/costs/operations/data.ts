import { randomBytes } from "node:crypto";

/** About 200 bytes as JSON, which the server can neither compress nor share. */
export const someData = (): { readonly text: string } => ({ text: randomBytes(141).toString("base64") });

/** 100 bytes. */
export const someText = (): string => randomBytes(75).toString("base64");
