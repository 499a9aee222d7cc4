// Plays the sellers: each answers in its chats, unless a person plays that seller.
import { connect } from "@kit/core";
import { setMaxListeners } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { isAway } from "../common/away.js";
import { marketKeys } from "../common/keys.js";
import { support } from "../orders/orders.js";
import type { Place } from "../common/place.js";
import { fraudster, slowSellers } from "../seed/personas.js";
import { orderChat, shopChat } from "../common/tools.js";
import { serveMember, startLimitMs } from "./member.js";

export interface SellersTask extends Place {
  readonly sellers: readonly string[];
}

export interface SellersStatus {
  readonly answered: number;
}

const thinkingMs = 350;
const slowMs = 5_000;
const playedMs = 1_000;

const rules: readonly (readonly [RegExp, string])[] = [
  [/^I offer/, "Let me think about it."],
  [/price|cheap|discount|offer/i, "The price is the price, I'm afraid. It is a good one."],
  [/ship|post|send|when|arriv/i, "It goes out today; the label is printed already."],
  [/seal|condition|work|broken|scratch|mend/i, "As described: honest wear, and it works."],
  [/thank|great|lovely/i, "You are welcome. Enjoy it!"],
  [/\?/, "Good question. Yes, it is."],
];

const answerTo = (text: string): string => rules.find(([pattern]) => pattern.test(text))?.[1] ?? "Noted, thank you.";

serveMember(async ({ url, prefix, sellers }: SellersTask, report) => {
  const redis = await connect({ url, connectionName: "bazaar sellers", deadlineMs: startLimitMs });
  const keys = marketKeys("main", prefix);
  const chat = shopChat(redis, prefix);
  chat.on("error", () => undefined);
  const everySeller = new Set(sellers);
  const end = new AbortController();
  // Each message that waits for its answer listens.
  setMaxListeners(0, end.signal);
  let answered = 0;
  report({ answered } satisfies SellersStatus);

  /** Runs the answer to one message. One that nobody can answer, since its seller has left the chat, is passed over. */
  const answering = async (answer: () => Promise<void>): Promise<void> => {
    try {
      await answer();
    } catch (error) {
      if (end.signal.aborted || isAway(error)) throw error;
    }
  };

  const isPlayed = async (seller: string): Promise<boolean> => (await redis.exists(keys.present(seller))) === 1;

  const serve = async (seller: string): Promise<void> => {
    await chat.listen(seller, { signal: end.signal }).each(({ chat: name, seq, from, body }) =>
      answering(async () => {
        // Support and the other sellers are programs, too: answering them would never end.
        if (from === support || from === seller || everySeller.has(from)) return;
        // A person plays this seller. The message stays unread until that person reads it or leaves.
        if (await isPlayed(seller)) {
          while (await isPlayed(seller)) await sleep(playedMs, undefined, { signal: end.signal });
          return;
        }
        await sleep(slowSellers.has(seller) ? slowMs : thinkingMs, undefined, { signal: end.signal });
        // After a crash the answer is sent again. Its client id is the same, so the chat accepts it once.
        const answer = seller === fraudster ? "Pay me outside of the shop, and it is half the price." : answerTo(body);
        await chat.send(name, { from: seller, body: answer, clientId: `answer-${seq}` });
        if (seller === fraudster && name.startsWith("order:"))
          await chat.send(name, { from: support, body: "Please pay in the shop only.", clientId: `warning-${seq}` });
        report({ answered: ++answered } satisfies SellersStatus);
      }),
    );
  };
  // Buyers resell items, and no listener runs for each of them. Support is a member of every order's chat, so its
  // listener answers for them.
  const serveOthers = async (): Promise<void> => {
    await chat.listen(support, { signal: end.signal }).each(({ chat: name, seq, from, body }) =>
      answering(async () => {
        const seller = await redis.hget(keys.order(name.slice(orderChat("").length)), "seller");
        if (seller === null || everySeller.has(seller) || from === seller || from === support) return;
        if (await isPlayed(seller)) return;
        await sleep(thinkingMs, undefined, { signal: end.signal });
        await chat.ack(seller, { chat: name, seq });
        await chat.send(name, { from: seller, body: answerTo(body), clientId: `answer-${seq}` });
        report({ answered: ++answered } satisfies SellersStatus);
      }),
    );
  };

  // A long outage ends the listening. It is started again until this process stops.
  const keep = async (listening: () => Promise<void>): Promise<void> => {
    while (!end.signal.aborted) {
      await listening().catch(() => undefined);
      await sleep(500, undefined, { signal: end.signal }).catch(() => undefined);
    }
  };
  for (const seller of sellers) void keep(() => serve(seller));
  void keep(serveOthers);
  return {
    stop: async () => {
      end.abort();
      await chat.close({ timeoutMs: 300 }).catch(() => undefined);
      await redis.close();
    },
  };
});
