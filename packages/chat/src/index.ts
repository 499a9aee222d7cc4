export { createChat } from "./chat.js";
export {
  ChatAckError,
  ChatFullError,
  ChatMemberError,
  ChatTokenError,
  ChatTooLargeError,
  ChatUnknownError,
} from "./errors.js";

export type { Ack, Chat, ChatEvents, ChatInspection, HistoryPage, MembersPage, Page } from "./chat.js";
export type { ChatErrorCode } from "./errors.js";
export type { Delivery, Listener } from "./listener.js";
export type { LeasedMessage, Mailbox, MailboxStats } from "./mailbox.js";
export type {
  ChatOptions,
  CreateOptions,
  DurableOption,
  FetchOptions,
  HistoryOptions,
  JoinOptions,
  ListenOptions,
  MailboxOptions,
  MembersOptions,
  Retention,
  SendOptions,
  TailOptions,
  TakeOptions,
  WaitOptions,
} from "./options.js";
export type { Accepted } from "./outbox.js";
export type { ChatNews, Gap, Message, News } from "./reader.js";
export type { MovedPosition } from "./scripts/index.js";
export type { CloseOptions } from "@kit/core/toolkit";
