export { createChat } from "./chat.js";
export {
  ChatAckError,
  ChatFullError,
  ChatMemberError,
  ChatTokenError,
  ChatTooLargeError,
  ChatUnknownError,
} from "./errors.js";

export type { Ack } from "./send/acknowledger.js";
export type { Chat, ChatEvents } from "./chat.js";
export type { ChatErrorCode } from "./errors.js";
export type { ChatInspection, HistoryPage } from "./read/history.js";
export type { DeliveredMessage, Listener } from "./listener.js";
export type { LeasedMessage, Mailbox, MailboxStats } from "./mailbox.js";
export type { MembersPage } from "./members.js";
export type { Gap, Message } from "./read/message.js";
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
export type { ChatNews, News } from "./read/reader.js";
export type { FetchPage } from "./readers.js";
export type { MovedPosition } from "./scripts/index.js";
export type { Accepted } from "./send/sender.js";
export type { CloseOptions } from "@kit/core/toolkit";
