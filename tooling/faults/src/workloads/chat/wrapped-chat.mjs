// Controls: the API of a chat with one lie. The query of the import's URL names the lie.
import { createChat as createTrueChat } from "@kit/chat";
import { lying } from "../../lab/lies.mjs";

/** Takes messages for a third of the time and extends them for as long as the process lives. */
const takenFor = async (box, options) => {
  const shortMs = options.leaseMs / 3;
  const messages = await box.take({ ...options, leaseMs: Math.ceil(shortMs) });
  return messages.map((message) => {
    let endsAt = performance.now() + options.leaseMs;
    const extending = setInterval(() => {
      if (performance.now() > endsAt - shortMs) clearInterval(extending);
      else message.extend(Math.ceil(shortMs)).catch(() => undefined);
    }, shortMs / 3).unref();
    const last = async (call) => {
      clearInterval(extending);
      return await call();
    };
    return {
      ...message,
      ack: () => last(message.ack),
      release: () => last(message.release),
      extend: (ms) => {
        endsAt = performance.now() + ms;
        return message.extend(ms);
      },
    };
  });
};

const lies = {
  "leases-die-with-their-worker": (chat) => ({
    mailbox: (...call) => {
      const box = chat.mailbox(...call);
      return lying(box, { take: (options) => takenFor(box, options) });
    },
  }),
  "unread-off-by-one": (chat) => ({
    unread: async (...call) => {
      const counts = await chat.unread(...call);
      return new Map(Array.from(counts, ([name, count]) => [name, count + 1]));
    },
  }),
  "page-without-its-last": (chat) => ({
    fetch: async (...call) => {
      const page = await chat.fetch(...call);
      const isLong = ({ messages }) => messages.length > 5;
      return {
        ...page,
        chats: page.chats.map((one) => (isLong(one) ? { ...one, messages: one.messages.slice(0, -1) } : one)),
      };
    },
  }),
};
const lie = lies[new URL(import.meta.url).search.slice(1)];

export const createChat = (...args) => {
  const chat = createTrueChat(...args);
  return lying(chat, lie(chat));
};
