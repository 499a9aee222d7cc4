// Seeds four hundred chats between buyers and sellers from before the opening.
import type { Chat } from "@kit/chat";
import { pairChat, writeTo } from "../common/tools.js";
import type { World } from "./index.js";
import talks from "./chats.json" with { type: "json" };
import { random } from "./random.js";

const chats = 400;
const ofPersonas = 60;
const atOnce = 20;

/** Writes the chats. `met` is called for each persona and the seller it wrote to, so that names can be completed. */
export const seedChats = async (
  chat: Chat<string>,
  { users }: World,
  personas: readonly string[],
  met: (one: string, other: string) => Promise<void>,
): Promise<void> => {
  const chance = random(400);
  const sellers = users.filter(({ isSeller }) => isSeller).map(({ id }) => id) as [string, ...string[]];
  const buyers = users.filter(({ isSeller }) => !isSeller).map(({ id }) => id) as [string, ...string[]];
  const pairs = Array.from({ length: chats }, (_, n) => ({
    buyer: n < ofPersonas ? (personas[n % personas.length] ?? "") : chance.pick(buyers),
    seller: chance.pick(sellers),
    talk: chance.pick(talks as [string[], ...string[][]]),
  })).filter(({ buyer, seller }) => buyer !== seller);
  const one = async ({ buyer, seller, talk }: (typeof pairs)[number]): Promise<void> => {
    const hasReadAll = chance.next() < 0.8;
    for (const [n, body] of talk.entries()) {
      const [from, to] = n % 2 === 0 ? [buyer, seller] : [seller, buyer];
      const { seq } = await writeTo(chat, from, to, { body, clientId: `seed-${n}` });
      // Acknowledged for the seller, so that the program that plays sellers does not answer again.
      if (to === seller || hasReadAll) await chat.ack(to, { chat: pairChat(buyer, seller), seq });
    }
    if (personas.includes(buyer)) await met(buyer, seller);
  };
  while (pairs.length > 0) await Promise.all(pairs.splice(0, atOnce).map(one));
};
