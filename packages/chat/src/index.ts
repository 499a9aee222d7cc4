export { createChat } from "./chat.js";
export { ChatAckError, ChatFullError, ChatMemberError, ChatTooLargeError, ChatUnknownError } from "./errors.js";

export type { Ack, Chat, ChatEvents, ChatInspection, HistoryPage, MembersPage, Page } from "./chat.js";
export type { ChatErrorCode } from "./errors.js";
export type { Delivery, Listener } from "./listener.js";
export type {
  ChatOptions,
  CloseOptions,
  CreateOptions,
  DurableOption,
  FetchOptions,
  HistoryOptions,
  JoinOptions,
  ListenOptions,
  MembersOptions,
  Retention,
  SendOptions,
  WaitOptions,
} from "./options.js";
export type { Accepted } from "./outbox.js";
export type { ChatNews, Gap, Message } from "./reader.js";
