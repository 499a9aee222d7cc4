import type { Connection } from "@kit/core";
import { type Chat, ChatUnknownError, createChat } from "../index.js";
import { layoutKey } from "../keys.js";

/**
 * Calls back with a chat object for reading. If the prefix has no chats none is made, since it would store the number of
 * shards.
 *
 * @throws {ChatUnknownError}
 */
export const looking = async <T>(
  redis: Connection,
  prefix: string,
  name: string,
  look: (chat: Chat) => Promise<T>,
): Promise<T> => {
  if ((await redis.call("EXISTS", layoutKey(prefix))) !== 1) throw new ChatUnknownError(name);
  const chat = createChat(redis, { prefix });
  try {
    return await look(chat);
  } finally {
    await chat.close();
  }
};
