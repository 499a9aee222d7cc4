/** How a body is stored: text, JSON, or bytes. */
type BodyKind = "s" | "j" | "x";

export interface StoredBody {
  readonly kind: BodyKind;
  readonly stored: string | Buffer;
  /** Its size as `maxBodyBytes` counts it. */
  readonly bytes: number;
}

/**
 * Text and bytes are stored unchanged, everything else as JSON.
 *
 * @throws {TypeError} JSON cannot hold it (undefined, a function, a symbol, a bigint, a cycle), or it is text with half a
 * surrogate pair, which UTF-8 cannot hold.
 */
export const encodeBody = (body: unknown): StoredBody => {
  if (typeof body === "string") {
    if (!(body as unknown as { isWellFormed(): boolean }).isWellFormed())
      throw new TypeError("Expected `body` to be well-formed Unicode");
    return { kind: "s", stored: body, bytes: Buffer.byteLength(body) };
  }
  // A copy: the message may be sent later, when the caller has reused the memory.
  if (body instanceof Uint8Array) return { kind: "x", stored: Buffer.from(body), bytes: body.length };
  let text: string | undefined;
  let cause: unknown;
  try {
    text = JSON.stringify(body);
  } catch (error) {
    // A bigint, a cycle, or thousands of levels.
    cause = error;
  }
  if (text === undefined)
    throw new TypeError(`Expected \`body\` to be a string, bytes or JSON, got ${typeof body}`, { cause });
  return { kind: "j", stored: text, bytes: Buffer.byteLength(text) };
};

/** A kind that only a later version writes is returned as text. */
export const decodeBody = (kind: string, stored: Buffer): unknown => {
  if (kind === "j") return JSON.parse(String(stored));
  return kind === "x" ? new Uint8Array(stored) : String(stored);
};
