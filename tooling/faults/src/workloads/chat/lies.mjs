import { lying, made } from "../../lab/lies.mjs";

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

const aChat =
  (lie) =>
  ({ createChat }) => ({ createChat: made(createChat, lie) });

export const lies = {
  "leases-die-with-their-worker": aChat((chat) => ({
    mailbox: (...call) => {
      const box = chat.mailbox(...call);
      return lying(box, { take: (options) => takenFor(box, options) });
    },
  })),
  "unread-off-by-one": aChat((chat) => ({
    unread: async (...call) => {
      const counts = await chat.unread(...call);
      return new Map(Array.from(counts, ([name, count]) => [name, count + 1]));
    },
  })),
  "page-without-its-last": aChat((chat) => ({
    fetch: async (...call) => {
      const page = await chat.fetch(...call);
      const isLong = ({ messages }) => messages.length > 5;
      return {
        ...page,
        chats: page.chats.map((one) => (isLong(one) ? { ...one, messages: one.messages.slice(0, -1) } : one)),
      };
    },
  })),
};
