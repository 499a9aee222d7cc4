import { counted, dated, type Facts, type Inspector, type Report, secondsText } from "@kit/core/toolkit";
import {
  type Chat,
  type ChatInspection,
  ChatMemberError,
  ChatUnknownError,
  type MailboxStats,
  type MembersPage,
} from "../index.js";
import { Keys } from "../keys.js";
import { defaultShards } from "../options.js";
import { looking } from "./looking.js";

/** A chat at one instant; what `kit inspect chat NAME --json` prints. */
interface ChatReport extends ChatInspection {
  readonly chat: string;
  /** Some of the members, in no order. */
  readonly someMembers: MembersPage["members"];
  /** Null if no worker ever took messages from it. */
  readonly mailbox: MailboxStats | null;
}

const mailboxOf = async (chat: Chat, name: string): Promise<MailboxStats | null> => {
  try {
    const stats = await chat.mailbox(name).stats();
    return stats.lastSeenAt === undefined ? null : stats;
  } catch (error) {
    if (error instanceof ChatMemberError) return null;
    throw error;
  }
};

const reportOf = async (chat: Chat, name: string): Promise<ChatReport> => {
  const inspection = await chat.inspect(name);
  const { members: someMembers } = await chat.members(name, { limit: 10 });
  return { chat: name, ...inspection, someMembers: someMembers.slice(0, 10), mailbox: await mailboxOf(chat, name) };
};

const timeText = (at: number | undefined): string => (at === undefined ? "none" : (dated(at) ?? "unknown"));

const mailboxFacts = (mailbox: MailboxStats | null): Facts => {
  if (!mailbox) return [];
  const { length, leased, oldestAgeMs, lastSeenAgeMs = 0 } = mailbox;
  const oldest = oldestAgeMs === undefined ? "" : `, oldest sent ${secondsText(oldestAgeMs)} ago`;
  return [
    ["mailbox", `${String(length)} unacknowledged, ${String(leased)} leased${oldest}`],
    ["last seen", `${secondsText(lastSeenAgeMs)} ago`],
  ];
};

const factsOf = ({ chat, head, messages, members, slowest, mailbox, ...report }: ChatReport): Facts => [
  ["chat", chat],
  ["created", timeText(report.createdAt)],
  ["messages", messages === 0 ? "none" : `${String(messages)}, last sequence ${String(head)}`],
  ["newest", timeText(report.newestAt)],
  ["oldest", timeText(report.oldestAt)],
  ["members", slowest === undefined ? "none" : `${String(members)}, slowest at position ${String(slowest)}`],
  ...mailboxFacts(mailbox),
];

export const chatInspector: Inspector = {
  thing: "chat",
  about: "a chat: messages, members and their read positions",
  look: async ({ redis, prefix }, name: string) =>
    await looking(redis, prefix, name, async (chat): Promise<Report> => {
      const data = await reportOf(chat, name);
      const rows = data.someMembers.map(({ member, position, unread }) => [member, String(position), String(unread)]);
      const columns = ["member", "position", "unread"];
      const { messages, members } = data;
      return {
        data,
        facts: factsOf(data),
        summary: `${counted(messages, "message")}, ${counted(members, "member")}`,
        table: rows.length > 0 ? { columns, rows } : undefined,
      };
    }).catch((error: unknown) => {
      if (!(error instanceof ChatUnknownError)) throw error;
      const facts: Facts = [
        ["chat", name],
        ["state", "unknown: never created, or deleted"],
      ];
      return { data: { chat: name }, facts, isUnknown: true };
    }),
  listed: { things: "chats", keys: ["{*}:meta:NAME"], columns: ["messages", "newest", "members"] },
  // No command is sent, so the keys are right only for the default number of shards.
  keys: (prefix, name: string) => Object.values(new Keys(prefix, defaultShards).chat(name)),
};
