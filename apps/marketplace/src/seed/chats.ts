// Seeds four hundred chats between buyers and sellers from before the opening.
import type { Chat } from "@kit/chat";
import { pairChat, writeTo } from "../tools.js";
import type { World } from "./index.js";
import { random } from "./random.js";

const chats = 400;
const ofPersonas = 60;
const atOnce = 20;

const talks: readonly (readonly [string, ...string[]])[] = [
  ["Is it still sealed?", "It is, and the box has all its corners."],
  [
    "Does it still work?",
    "It works; the film on the back of the catalogue shows it.",
    "Then I shall come back on Friday.",
  ],
  [
    "Would you send it abroad?",
    "Gladly, for the price of the stamps.",
    "How long does that take?",
    "A week, or two at Christmas.",
  ],
  ["Who made it?", "It is not signed. A country workshop, I should say.", "Thank you for the honest answer."],
  ["It arrived, and it is lovely.", "That is good to hear!"],
  ["Could you put it aside until Monday?", "Until Monday, with pleasure."],
  ["Is the crack in the picture a shadow?", "A shadow. There is a chip at the foot, though.", "Good to know."],
  ["Do you have a second one?", "Only this one, I am afraid.", "Then I had better be quick."],
];

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
    talk: chance.pick(talks as [(typeof talks)[number], ...(typeof talks)[number][]]),
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
