/** How a body is stored: text, JSON, or bytes in base64. */
export type BodyKind = "s" | "j" | "x";

export interface StoredBody {
  readonly kind: BodyKind;
  readonly text: string;
  /** What counts against `maxBodyBytes`. */
  readonly bytes: number;
}

/**
 * Text and bytes are stored as they are (bytes as base64, since replies of scripts are text); everything else as
 * `JSON.stringify` has it.
 *
 * @throws {TypeError} JSON has no form for it (undefined, a function, a symbol, a bigint, a cycle), or it is text with half a
 * surrogate pair, which UTF-8 cannot hold.
 */
export const encodeBody = (body: unknown): StoredBody => {
  if (typeof body === "string") {
    if (/\p{Surrogate}/u.test(body)) throw new TypeError("Expected `body` to be well-formed text");
    return { kind: "s", text: body, bytes: Buffer.byteLength(body) };
  }
  if (body instanceof Uint8Array) {
    const { buffer, byteOffset, byteLength } = body;
    return { kind: "x", text: Buffer.from(buffer, byteOffset, byteLength).toString("base64"), bytes: byteLength };
  }
  const text = JSON.stringify(body) as string | undefined;
  if (text === undefined) throw new TypeError(`Expected \`body\` to be text, bytes or JSON, got ${typeof body}`);
  return { kind: "j", text, bytes: Buffer.byteLength(text) };
};

/** A kind that this version does not know, written by a later one, is given as text. */
export const decodeBody = (kind: string, text: string): unknown => {
  if (kind === "j") return JSON.parse(text);
  return kind === "x" ? new Uint8Array(Buffer.from(text, "base64")) : text;
};
