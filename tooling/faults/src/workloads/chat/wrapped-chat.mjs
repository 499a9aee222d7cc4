// Controls: the chat as its callers see it, with one lie. Which one says the query of the address it is imported by.
import { createChat as createTrueChat } from "@kit/chat";
import { lying } from "../../lab/lies.mjs";

const lies = {
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
