/** node-redis' numbers for the types of the protocol, and what each is decoded to. */
type TypeMapping = Readonly<Record<number, unknown>>;

/**
 * Decodes both protocol versions to the RESP2 form: maps are flat lists, doubles and big numbers are texts. Numbers, texts and
 * lists use that form by default, but callers may have set another mapping on their client.
 */
const texts: TypeMapping = {
  33: String,
  36: String,
  37: Array,
  40: String,
  42: Array,
  43: String,
  44: String,
  45: String,
  58: Number,
  61: String,
  126: Array,
};

/** The same, with texts as bytes. */
const bytes: TypeMapping = { ...texts, 36: Buffer, 43: Buffer, 61: Buffer };

export const mappings = { texts, bytes } as const;

/** An error reply of the server, in a form that core recognizes. */
export const replyError = ({ message }: Error): Error => {
  const error = new Error(message);
  error.name = "ReplyError";
  return error;
};

/**
 * Converts the values that no mapping covers: RESP3 booleans to numbers, and errors within a list (of EXEC). With RESP2, texts
 * arrive as bytes while the owner subscribes. Changes lists in place.
 */
export const decoded = (reply: unknown, asTexts: boolean): unknown => {
  if (typeof reply === "boolean") return Number(reply);
  if (reply instanceof Error) return replyError(reply);
  if (asTexts && Buffer.isBuffer(reply)) return reply.toString();
  if (Array.isArray(reply))
    reply.forEach((item: unknown, index) => {
      if (typeof item === "boolean" || (typeof item === "object" && item !== null))
        reply[index] = decoded(item, asTexts);
    });
  return reply;
};
