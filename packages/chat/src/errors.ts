import { KitError } from "@kit/core";

/**
 * Codes of the chat's own errors.
 *
 * - `KIT_CHAT_UNKNOWN`: there is no chat of that name
 * - `KIT_CHAT_NOT_MEMBER`: the user is not a member of the chat
 * - `KIT_CHAT_TOO_LARGE`: a body is larger than the chat, or this object, allows
 * - `KIT_CHAT_FULL`: the chat holds as many messages as it may, and refuses more
 * - `KIT_CHAT_BUSY`: `maxPending` calls of this process already wait
 * - `KIT_CHAT_ACK_BEYOND`: a sequence was acknowledged that has not been sent
 * - `KIT_CHAT_FORKED`: the acknowledged message is not the one that the server has under its sequence
 * - `KIT_CHAT_TOKEN`: a token is damaged, or of another member
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

/** There is no chat of that name: it was never created, or is deleted. */
export class ChatUnknownError extends KitError {
  /** @internal */
  static override readonly brand: string = "ChatUnknownError";
  readonly chat: string;

  constructor(chat: string) {
    super("KIT_CHAT_UNKNOWN", `There is no chat ${shown(chat)}`);
    this.chat = chat;
  }
}

/** The user is not a member of the chat: it never joined, has left, or was removed because it lagged too far. */
export class ChatMemberError extends KitError {
  /** @internal */
  static override readonly brand: string = "ChatMemberError";
  readonly chat: string;
  readonly member: string;

  constructor(chat: string, member: string) {
    super("KIT_CHAT_NOT_MEMBER", `${shown(member)} is not a member of chat ${shown(chat)}`);
    this.chat = chat;
    this.member = member;
  }
}

/** A body is too large. Nothing was sent. */
export class ChatTooLargeError extends KitError {
  /** @internal */
  static override readonly brand: string = "ChatTooLargeError";
  readonly chat: string;
  readonly bytes: number;
  readonly maxBodyBytes: number;

  constructor(chat: string, bytes: number, maxBodyBytes: number) {
    super(
      "KIT_CHAT_TOO_LARGE",
      `A message of ${String(bytes)} bytes is too large for chat ${shown(chat)}, which takes ${String(maxBodyBytes)}`,
    );
    this.chat = chat;
    this.bytes = bytes;
    this.maxBodyBytes = maxBodyBytes;
  }
}

/** The chat is at its limits, and is set to refuse messages instead of dropping its oldest ones. */
export class ChatFullError extends KitError {
  /** @internal */
  static override readonly brand: string = "ChatFullError";
  readonly chat: string;

  constructor(chat: string) {
    super("KIT_CHAT_FULL", `Chat ${shown(chat)} is full: its members have to acknowledge before it takes more`, {
      retryable: true,
    });
    this.chat = chat;
  }
}

/** The acknowledged sequence does not exist, or now belongs to another message. The position has not moved. */
export class ChatAckError extends KitError {
  /** @internal */
  static override readonly brand: string = "ChatAckError";
  readonly chat: string;
  readonly member: string;
  readonly seq: number;

  constructor(code: "KIT_CHAT_ACK_BEYOND" | "KIT_CHAT_FORKED", chat: string, member: string, seq: number) {
    const why =
      code === "KIT_CHAT_FORKED"
        ? "the server lost it, and has another message of that sequence"
        : "the chat has no message of that sequence yet";
    super(code, `${shown(member)} cannot acknowledge message ${String(seq)} of chat ${shown(chat)}: ${why}`);
    this.chat = chat;
    this.member = member;
    this.seq = seq;
  }
}

/** A token is damaged, or of another member's reader. Begin anew: a fetch without a token gives what is not acknowledged. */
export class ChatTokenError extends KitError {
  /** @internal */
  static override readonly brand: string = "ChatTokenError";
  readonly member: string;

  constructor(member: string) {
    super(
      "KIT_CHAT_TOKEN",
      `The token is not from a fetch of ${shown(member)}: begin anew, without a token, and forget this one`,
    );
    this.member = member;
  }
}
