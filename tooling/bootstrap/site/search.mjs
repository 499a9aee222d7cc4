import { readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { root } from "../repo.mjs";

/**
 * Words that readers search for, each with the address of the page that answers. The words are keywords of that page, and the built
 * index must list the page among its first hits.
 * @type {Readonly<Record<string, string>>}
 */
const searches = {
  cron: "queue/schedules",
  "repeatable jobs": "queue/schedules",
  stalled: "queue/workers",
  "graceful shutdown": "queue/deploys",
  SIGTERM: "queue/deploys",
  "rate limit": "limiter/index",
  "limit per customer": "recipes/customers-limits",
  retries: "queue/adding",
  deduplication: "queue/adding",
  "dead letter": "runbooks/on-call",
  "job does not run": "runbooks/on-call",
  concurrency: "queue/workers",
  "cancel a job": "queue/operations",
  flow: "queue/flows",
  NestJS: "queue/frameworks",
  "express-rate-limit": "limiter/http",
  "transactional outbox": "queue/outbox",
  progress: "queue/progress",
  "unit test": "testing-your-code",
  Jest: "testing-your-code",
  BullMQ: "migration/bullmq",
  redlock: "migration/redlock",
  "leader election": "lock/leader-election",
  mutex: "lock/index",
  "lock lost": "runbooks/lost-locks",
  "read write lock": "lock/read-write",
  "session limit": "semaphore/limits",
  ElastiCache: "where-it-runs",
  "Redis Cluster": "where-it-runs",
  "eviction policy": "production",
  "connection refused": "redis-away",
  "failed master": "runbooks/failed-master",
  "cost at scale": "at-scale",
  TLS: "core/recipes",
  "node-redis": "core/clients",
  serverless: "core/http",
  OpenTelemetry: "core/tracing",
  Prometheus: "stats/prometheus",
  "unread count": "chat/reading",
  "server-sent events": "chat/over-http",
  logrotate: "logship/files",
  "typing errors": "autocomplete/matching",
  "cache stampede": "recipes/cache",
  "idempotency key": "recipes/idempotency-key",
  defaults: "defaults",
};

/** How many hits a reader looks at. */
const seen = 4;

/**
 * The text of a page as the index gets it: with its keywords under the title. The site's configuration imports it.
 * @public
 * @param {string} text @param {string} address
 */
export const withKeywords = (text, address) => {
  const words = Object.entries(searches).flatMap(([word, page]) => (page === address ? [word] : []));
  return words.length === 0
    ? text
    : text.replace(/^# .*$/m, (title) => `${title}\n\n${`${words.join(", ")}. `.repeat(8)}\n`);
};

/**
 * Guides rank before pages that are looked up. It also runs in the browser, so it uses nothing of this module.
 * @public
 * @param {string} id The path of a page and its heading.
 */
export const weightInSearch = (id) => {
  const page =
    /\/(?:reference|api|design|decisions|bench|faults|marketplace|changelog|contributing|fault-runs|architecture)(?:[/.#]|$)/.test(
      id,
    )
      ? 0.15
      : /\/(?:migration|comparisons|errors|defaults|doctor|overview)(?:[/.#]|$)/.test(id)
        ? 0.3
        : 1;
  // A package's introduction answers before the sections of its other pages, which have its words in their headings.
  const introduction = /^\/[\w-]+\/(?:index(?:\.html)?)?#kit[a-z]/.test(id) ? 1.5 : 1;
  return (id.includes("#") ? page * 0.6 : page) * introduction;
};

/**
 * The searches whose page is not among the first hits of the built index.
 * @param {string} folder Of the built site.
 */
export async function searchProblems(folder) {
  const fromSite = createRequire(join(root, "apps", "site", "package.json"));
  const MiniSearch = createRequire(fromSite.resolve("vitepress"))("minisearch");
  const chunks = join(folder, "assets", "chunks");
  const file = readdirSync(chunks).find((name) => name.startsWith("@localSearchIndex"));
  if (file === undefined) return ["The site has no search index"];
  // The chunk of the build is a module whose default export is the index, as JSON.
  const { default: json } = await import(pathToFileURL(join(chunks, file)).href);
  const index = MiniSearch.loadJSON(json, {
    fields: ["title", "titles", "text"],
    storeFields: ["title", "titles"],
  });
  return Object.entries(searches).flatMap(([words, address]) => {
    const found = index.search(words, {
      fuzzy: 0.2,
      prefix: true,
      boost: { title: 4, text: 2, titles: 1 },
      boostDocument: weightInSearch,
    });
    const pages = found.map((/** @type {{ id: string }} */ { id }) =>
      id.replace(/^\//, "").replace(/(?:\.html)?(?:#.*)?$/, ""),
    );
    const wanted = address.replace(/(?:^|\/)index$/, "");
    const first = pages.slice(0, seen).map((/** @type {string} */ page) => page.replace(/\/(?:index)?$/, ""));
    return first.includes(wanted) ? [] : [`a search for "${words}" finds ${first.join(", ")}, and not ${address}`];
  });
}
