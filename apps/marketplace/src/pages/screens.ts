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
    what: "1,200 items for sale. The search box completes names of sellers and items while you type. Each keystroke runs one read-only script. It works in any language, with words in any order.",
    packages: ["autocomplete", "lock"],
    keys: ["kit:autocomplete:{market}:…", "kit:shop:{main}:market", "kit:lock:{shop.main.<item>}:…"],
    file: "src/market/search.ts",
    from: "  /** Sellers and things with all words",
    lines: 11,
  },
  {
    path: "/item/",
    name: "Item",
    what: "One item with its price and its lock, live. A sale acquires the locks of item, buyer and seller together, or none. Buyers wait in order of arrival. Each sale carries the fencing token of its lease, and the item rejects older tokens. If a buyer offers less, a delayed job sends the seller's reply.",
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
    what: "A sale adds four jobs for three worker processes, and opens a chat with buyer, seller and support. The payment waits for one of five permits, because the provider accepts five payments at the same time.",
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
    what: "Your chats, with unread counts. Write to a recent contact or a member of your guild. The field completes both while you type.",
    packages: ["chat", "autocomplete"],
    keys: ["kit:chat:{<shard>}:member:<user>", "kit:autocomplete:{<user>}:…", "kit:autocomplete:{guild <id>}:…"],
    file: "src/market/search.ts",
    from: "  /** Recent contacts first,",
    lines: 10,
  },
  {
    path: "/ops",
    name: "Ops",
    what: "The operator's view: held locks, payment permits, the queue, worker processes, dead letters, a maintenance switch, and the location of the shop's diary.",
    packages: ["lock", "semaphore", "queue", "core"],
    keys: ["kit:semaphore:{payments}:…", "kit:queue:{orders}:dead", "kit:config:{flags}:…", "kit:config:{logs}:…"],
    file: "src/behind/recent-log.ts",
    from: "    this.#component = createComponent(",
    lines: 6,
  },
  {
    path: "/logs",
    name: "Logs",
    what: "The access log of this web server goes through Redis. A shipper sends files. Two consumers read and count every line once. Redis frees the space when both have read it.",
    packages: ["logship", "geoip"],
    keys: ["kit:logship:{access}:…", "kit:geoip:{synthetic}:…"],
    file: "src/behind/consumer.ts",
    from: "  const locator = {",
    lines: 12,
  },
  {
    path: "/stats",
    name: "Stats",
    what: "Counters at four precisions, and response time distributions. When you zoom in, the page uses a finer precision while it is kept. The sums stay the same.",
    packages: ["stats"],
    keys: ["kit:stats:{shop_sales_total}:…", "kit:stats:{shop_request_ms;route=…}:…"],
    file: "src/common/tools.ts",
    from: '    requests: stats.distribution("shop_request_ms"',
    lines: 8,
  },
  {
    path: "/mail",
    name: "Mail",
    what: "Receipts and reminders that a mail server on this machine received. Each mail is a job. The queue retries rejected mail, and the mail server detects duplicates by id.",
    packages: ["queue"],
    keys: ["kit:queue:{orders}:delayed", "kit:queue:{orders}:jobs"],
    file: "src/behind/worker.ts",
    from: "      receipt: ofOrder(",
    lines: 10,
  },
  {
    path: "/race",
    name: "Race",
    what: "Fifty real HTTP requests for one item: without a lock, with a simple SETNX lock, optimistically, and with the kit lock. Two more tabs pause a buyer in the middle, and change prices while readers read them.",
    packages: ["lock", "core"],
    keys: ["kit:shop:{race-<id>}:…", "kit:lock:{shop.race-<id>.i1}:…", "kit:lock:{shop.prices}:rw-…"],
    file: "src/market/market.ts",
    from: "  async buyUnder({ fencingToken",
    lines: 8,
  },
  {
    path: "/faults",
    name: "Faults",
    what: "Buttons that break running processes. Each one tests a promise and shows the result. Everything recovers automatically.",
    packages: ["queue", "lock", "chat", "testing"],
    keys: ["kit:queue:{orders}:leases", "kit:shop:{race-<id>}:item:i1"],
    file: "src/behind/faults.ts",
    from: "        const pid = crew.kill(hit.name",
    lines: 8,
  },
  {
    path: "/pipeline",
    name: "Pipeline",
    what: "Compares 30 reads sent one by one, as a pipeline, and in parallel on a connection with automatic pipelining. Also compares a page view as plain commands, as a pipeline and as a script. The button measures both.",
    packages: ["core"],
    keys: ["kit:shop:{main}:item:<item>", "kit:shop:{main}:session:<digest>", "kit:shop:{main}:views"],
    file: "src/race/measure.ts",
    from: "  const ways",
    lines: 12,
  },
  {
    path: "/personas",
    name: "Personas",
    what: "Choose a persona, without a password. Each persona can have five open sessions. A semaphore with one tenant per persona counts them. A limiter limits the forms of a session, a persona and an address.",
    packages: ["semaphore", "limiter"],
    keys: ["kit:semaphore:{sessions}:…", "kit:limiter:{forms.persona}:…", "kit:shop:{main}:session:<digest>"],
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
