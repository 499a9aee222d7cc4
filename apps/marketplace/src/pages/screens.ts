// The screens: their packages, their keys, and the lines of this program behind them.
import { existsSync, readFileSync } from "node:fs";
import { appFile } from "../common/app-file.js";

export interface Screen {
  readonly path: string;
  readonly name: string;
  readonly what: string;
  readonly packages: readonly string[];
  readonly keys: readonly string[];
  readonly file: string;
  readonly code: string;
}

interface Source extends Omit<Screen, "code"> {
  /** The beginning of the first line that is shown. */
  readonly from: string;
  readonly lines: number;
}

const sources: readonly Source[] = [
  {
    path: "/",
    name: "Market",
    what: "Twelve hundred things for sale. The box above completes names of sellers and things while you type: one read-only script per keystroke, in any language, with the words in any order.",
    packages: ["autocomplete", "lock"],
    keys: ["kit:autocomplete:{market}:…", "kit:shop:{main}:market", "kit:lock:{shop.main.<item>}:…"],
    file: "src/market/search.ts",
    from: "  /** Sellers and things with all words",
    lines: 11,
  },
  {
    path: "/item/",
    name: "Item",
    what: "One thing, its price and its lock, live. A sale takes the locks of item, buyer and seller together, or none. Buyers wait in order of arrival. Each sale carries the fencing token of its lease, and the item refuses older tokens. A buyer may also offer less: the seller's answer is a delayed job.",
    packages: ["lock", "core"],
    keys: [
      "kit:lock:{shop.main.<item>}:…",
      "kit:lock:{shop.main%3A<user>}:…",
      "kit:shop:{main}:item:<item>",
      "kit:shop:{main}:listing:<item>",
    ],
    file: "src/market/market.ts",
    from: "  async #underLocks<T>",
    lines: 12,
  },
  {
    path: "/order/",
    name: "Order",
    what: "A sale adds four jobs, done by three worker processes, and opens a chat of buyer, seller and support. The payment waits for one of five permits, since the provider accepts no more at once.",
    packages: ["queue", "semaphore", "chat"],
    keys: [
      "kit:queue:{orders}:…",
      "kit:semaphore:{payments}:…",
      "kit:chat:{<shard>}:messages:order%3A<id>",
      "kit:shop:{main}:order:<id>",
    ],
    file: "src/behind/worker.ts",
    from: "      charge: ofOrder(",
    lines: 10,
  },
  {
    path: "/messages",
    name: "Messages",
    what: "Your chats, with what you have not read. A new message goes to somebody you wrote with lately, or to a member of your guild: both are completed while you type.",
    packages: ["chat", "autocomplete"],
    keys: ["kit:chat:{<shard>}:member:<user>", "kit:autocomplete:{<user>}:…", "kit:autocomplete:{guild <id>}:…"],
    file: "src/market/search.ts",
    from: "  /** Recent contacts first,",
    lines: 10,
  },
  {
    path: "/ops",
    name: "Ops",
    what: "The operator's view: locks held, the permits of the payment provider, the queue, the worker processes, dead letters to retry, a switch for maintenance, and where the diary of the shop is kept.",
    packages: ["lock", "semaphore", "queue", "core"],
    keys: ["kit:semaphore:{payments}:…", "kit:queue:{orders}:dead", "kit:config:{flags}:…", "kit:config:{logs}:…"],
    file: "src/behind/recent-log.ts",
    from: "    this.#component = createComponent(",
    lines: 6,
  },
  {
    path: "/logs",
    name: "Logs",
    what: "The access log of this web server on its way through Redis: a shipper sends files, two consumers each read every line once and count it, and space is freed behind the slower one.",
    packages: ["logship", "geoip"],
    keys: ["kit:logship:{access}:…", "kit:geoip:{synthetic}:…"],
    file: "src/behind/consumer.ts",
    from: "  const locator = {",
    lines: 12,
  },
  {
    path: "/stats",
    name: "Stats",
    what: "Counters kept at four precisions, and distributions of time. Zoom in, and a finer precision answers for as long as it is kept; the sums stay the same.",
    packages: ["stats"],
    keys: ["kit:stats:{shop_sales_total}:…", "kit:stats:{shop_request_ms;route=…}:…"],
    file: "src/common/tools.ts",
    from: '    requests: stats.distribution("shop_request_ms"',
    lines: 8,
  },
  {
    path: "/mail",
    name: "Mail",
    what: "Receipts and reminders as they arrived at a mail server on this machine. Each is a job: refused mails are sent again, and one that was sent twice is recognised by its id.",
    packages: ["queue"],
    keys: ["kit:queue:{orders}:delayed", "kit:queue:{orders}:jobs"],
    file: "src/behind/worker.ts",
    from: "      receipt: ofOrder(",
    lines: 7,
  },
  {
    path: "/race",
    name: "Race",
    what: "Fifty real HTTP requests for one item, under no lock, under the lock everybody writes first, optimistically, and under the kit's. Then a buyer that is stopped in the middle, and a price list that is re-priced while people read it.",
    packages: ["lock", "core"],
    keys: ["kit:shop:{race-<id>}:…", "kit:lock:{shop.race-<id>.i1}:…", "kit:lock:{shop.prices}:rw-…"],
    file: "src/market/market.ts",
    from: "  async buyUnder({ fencingToken",
    lines: 8,
  },
  {
    path: "/faults",
    name: "Faults",
    what: "Buttons that do real harm to the running processes. Each heals by itself, and says which promise it put to the test and what came of it.",
    packages: ["queue", "lock", "chat", "testing"],
    keys: ["kit:queue:{orders}:leases", "kit:shop:{race-<id>}:item:i1"],
    file: "src/behind/faults.ts",
    from: "        const pid = crew.kill(hit.name",
    lines: 8,
  },
  {
    path: "/pipeline",
    name: "Pipeline",
    what: "The same reads sent one by one, as one pipeline, and all at once on a connection that gathers them by itself; and a page view as plain commands, as a pipeline and as a script. Measured when you press the button.",
    packages: ["core"],
    keys: ["kit:shop:{main}:item:<item>", "kit:shop:{main}:session:<digest>", "kit:shop:{main}:views"],
    file: "src/race/measure.ts",
    from: "  const ways",
    lines: 12,
  },
  {
    path: "/personas",
    name: "Personas",
    what: "No passwords: pick somebody. At most five sessions of one persona are open at once, counted by a semaphore whose tenants are the personas.",
    packages: ["semaphore"],
    keys: ["kit:semaphore:{sessions}:…", "kit:shop:{main}:session:<digest>"],
    file: "src/market/accounts.ts",
    from: "  /** Signs in; null if the persona",
    lines: 9,
  },
];

const read = (file: string): string[] => {
  const place = appFile(file);
  return existsSync(place) ? readFileSync(place, "utf8").split("\n") : [];
};

const excerpt = ({ file, from, lines }: Source): string => {
  const all = read(file);
  const start = all.findIndex((line) => line.startsWith(from));
  const chosen = start < 0 ? [] : all.slice(start, start + lines);
  const indent = Math.min(...chosen.filter((line) => line.trim() !== "").map((line) => line.search(/\S/)), 80);
  return chosen.map((line) => line.slice(indent)).join("\n");
};

export const screens: readonly Screen[] = sources.map(({ from, lines, ...screen }) => ({
  ...screen,
  code: excerpt({ ...screen, from, lines }),
}));

/** The screen that a path belongs to. */
export const screenOf = (path: string): Screen | undefined =>
  screens.find((screen) => (screen.path === "/" ? path === "/" || path === "/search" : path.startsWith(screen.path)));
