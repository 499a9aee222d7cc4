import { KitError } from "@kit/core";

/**
 * Codes of the chat's own errors. One code has no class:
 *
 * - `KIT_CHAT_BUSY`: `maxPending` sends to this chat, or acknowledgements of this shard, already wait in this process. Nothing was
 *   sent. Retryable
 */
export type ChatErrorCode =
  | "KIT_CHAT_UNKNOWN"
  | "KIT_CHAT_NOT_MEMBER"
  | "KIT_CHAT_TOO_LARGE"
  | "KIT_CHAT_FULL"
  | "KIT_CHAT_BUSY"
  | "KIT_CHAT_ACK_BEYOND"
  | "KIT_CHAT_FORKED"
  | "KIT_CHAT_TOKEN";

declare module "@kit/core" {
  interface KitErrorCodes {
    chat: ChatErrorCode;
  }
}

const shown = (name: string): string => JSON.stringify(name.length > 80 ? `${name.slice(0, 80)}…` : name);

/** No chat has that name: it was never created, or it was deleted. Nothing was changed. */
export class ChatUnknownError extends KitError {
  /** @internal */
  static override readonly brand: string = "ChatUnknownError";
  readonly chat: string;

  constructor(chat: string) {
    super("KIT_CHAT_UNKNOWN", `Chat ${shown(chat)} does not exist. Create it first`);
    this.chat = chat;
  }
}

/** The user is not a member of the chat: it never joined, it left, or it was removed because it lagged too far. Nothing was changed. */
export class ChatMemberError extends KitError {
  /** @internal */
  static override readonly brand: string = "ChatMemberError";
  readonly chat: string;
  readonly member: string;

  constructor(chat: string, member: string) {
    super("KIT_CHAT_NOT_MEMBER", `${shown(member)} is not a member of chat ${shown(chat)}. Join first`);
    this.chat = chat;
    this.member = member;
  }
}

/**
 * A body is larger than the `maxBodyBytes` of the chat or of this chat object. The error's `maxBodyBytes` is the exceeded limit.
 * Nothing was sent.
 */
export class ChatTooLargeError extends KitError {
  /** @internal */
  static override readonly brand: string = "ChatTooLargeError";
  readonly chat: string;
  readonly bytes: number;
  readonly maxBodyBytes: number;

  constructor(chat: string, bytes: number, maxBodyBytes: number) {
    super(
      "KIT_CHAT_TOO_LARGE",
      `A message has ${String(bytes)} bytes, more than chat ${shown(chat)} accepts: ${String(maxBodyBytes)}`,
    );
    this.chat = chat;
    this.bytes = bytes;
    this.maxBodyBytes = maxBodyBytes;
  }
}

/**
 * The chat has reached `retain.count` or `retain.bytes`, and was created with `whenFull: "refuse"`. Nothing was sent. Retryable:
 * there is room again when members have acknowledged messages, or `retain.ageMs` has passed.
 */
export class ChatFullError extends KitError {
  /** @internal */
  static override readonly brand: string = "ChatFullError";
  readonly chat: string;

  constructor(chat: string) {
    super("KIT_CHAT_FULL", `Chat ${shown(chat)} is full: its members must first acknowledge messages`, {
      retryable: true,
    });
    this.chat = chat;
  }
}

/**
 * The acknowledged message does not exist on the server.
 *
 * - `KIT_CHAT_ACK_BEYOND`: the chat has no message with the acknowledged sequence yet. The position has not moved
 * - `KIT_CHAT_FORKED`: a failover lost the acknowledged message, and another message has its sequence. The position has not moved.
 *   Fetch again
 */
export class ChatAckError extends KitError {
  /** @internal */
  static override readonly brand: string = "ChatAckError";
  readonly chat: string;
  readonly member: string;
  readonly seq: number;

  constructor(code: "KIT_CHAT_ACK_BEYOND" | "KIT_CHAT_FORKED", chat: string, member: string, seq: number) {
    const why =
      code === "KIT_CHAT_FORKED"
        ? "the server lost it, and another message has its position"
        : "the chat has no such message yet";
    super(code, `${shown(member)} cannot acknowledge message ${String(seq)} of chat ${shown(chat)}: ${why}`);
    this.chat = chat;
    this.member = member;
    this.seq = seq;
  }
}

/**
 * The token is damaged, too large, or belongs to a reader of another member. Delete it and fetch without a token, which returns all
 * unacknowledged messages.
 */
export class ChatTokenError extends KitError {
  /** @internal */
  static override readonly brand: string = "ChatTokenError";
  readonly member: string;

  constructor(member: string) {
    super("KIT_CHAT_TOKEN", `The token is not from a fetch of ${shown(member)}. Delete it, and fetch without a token`);
    this.member = member;
  }
}
