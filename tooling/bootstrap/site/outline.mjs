/** @typedef {import("./documents.mjs").Page} Page */
/** @typedef {{ text: string, link?: string, collapsed?: boolean, items?: Item[] }} Item As VitePress has them in a sidebar. */

/** The packages in the order of the sidebar. Others follow by the alphabet. */
const order = [
  "lock",
  "semaphore",
  "limiter",
  "queue",
  "chat",
  "logship",
  "stats",
  "autocomplete",
  "geoip",
  "board",
  "core",
  "cli",
  "testing",
];

/** Labels that are shorter than the title of a page. @type {Record<string, string>} */
const labels = {
  overview: "Overview",
  "queue/outbox": "Outbox",
  "cli/doctor": "Checks of kit doctor",
  "bench/index": "Figures",
  "bench/method": "How they are measured",
  "bench/design": "Design of the benches",
  "marketplace/index": "The demo shop",
  "marketplace/design": "Design of the shop",
  "faults/index": "The fault lab",
  "faults/design": "Design of the fault lab",
};

/** Labels in a package's own list. @type {Record<string, string>} */
const own = { index: "Guide", operations: "Operations", reference: "Reference", api: "API", design: "Design" };

/**
 * The sidebar: every page stands in it once at least.
 * @param {readonly Page[]} pages
 */
export function sidebarOf(pages) {
  const known = new Map(pages.map((page) => [page.address, page]));
  /** @type {string[]} */
  const problems = [];
  /** @type {Set<string>} */
  const listed = new Set(["index"]);
  /** @param {string} address @param {string} [text] @returns {Item} */
  const item = (address, text) => {
    const page = known.get(address);
    if (page === undefined) problems.push(`the sidebar names ${address}, which is no page`);
    listed.add(address);
    return { text: text ?? labels[address] ?? shortTitle(page?.title ?? ""), link: linkOf(address) };
  };
  /**
   * A group leads to its first page: a group that only opens and closes is a button within a button for screen readers.
   * @param {string} text @param {readonly (string | Item)[]} items
   * @returns {Item}
   */
  const group = (text, items) => {
    const all = items.map((one) => (typeof one === "string" ? item(one) : one));
    return { text, link: all[0]?.link ?? "/", collapsed: true, items: all };
  };
  /** The pages of a folder. @param {string} folder */
  const below = (folder) => pages.map(({ address }) => address).filter((address) => address.startsWith(`${folder}/`));
  const packages = packagesOf(pages);
  /** @param {string} ending */
  const ofPackages = (ending) =>
    packages
      .filter((name) => known.has(`${name}/${ending}`))
      .map((name) => item(`${name}/${ending}`, `${own[ending]} of @kit/${name}`));

  const sidebar = [
    {
      text: "Start",
      items: ["overview", "first-steps", "testing-your-code", "faq", "glossary"].map((address) => item(address)),
    },
    {
      text: "Packages",
      items: packages.map((name) =>
        group(
          `@kit/${name}`,
          inOrder(below(name)).map((address) => item(address, own[address.slice(name.length + 1)])),
        ),
      ),
    },
    group("Recipes", [
      "recipes",
      ...below("recipes"),
      "queue/frameworks",
      "queue/outbox",
      "queue/schedules",
      "queue/flows",
      "queue/groups",
      "lock/leader-election",
      "limiter/http",
      "core/recipes",
      "core/http",
      "chat/over-http",
      "stats/prometheus",
    ]),
    group("Production", [
      "production",
      "redis-away",
      "at-scale",
      "where-it-runs",
      "versions",
      "security",
      "cli/doctor",
      ...ofPackages("operations"),
      group("Runbooks", below("runbooks")),
    ]),
    group("Compare and migrate", [...below("comparisons"), ...below("migration"), "bench/index", "fault-runs"]),
    group("Reference", ["errors", "defaults", ...ofPackages("reference"), ...ofPackages("api")]),
    group("Project", [
      "status",
      "changelog",
      "architecture",
      group("Decisions", below("decisions")),
      "contributing",
      "marketplace/index",
      "marketplace/design",
      "bench/method",
      "bench/design",
      "faults/index",
      "faults/design",
    ]),
  ];
  problems.push(
    ...pages
      .filter(({ address }) => !listed.has(address))
      .map(({ file }) => `${file} is not in the sidebar of the site`),
  );
  return { sidebar, problems };
}

/** The packages that have a guide. @param {readonly Page[]} pages */
const packagesOf = (pages) =>
  pages
    .flatMap(({ file }) => /^packages\/([^/]+)\/README\.md$/.exec(file)?.[1] ?? [])
    .sort((a, b) => place(order, a) - place(order, b) || a.localeCompare(b));

/** The guide first, then the other pages, and at the end what is for looking up. @param {readonly string[]} addresses */
const inOrder = (addresses) => {
  const last = (/** @type {string} */ address) =>
    ["operations", "reference", "api", "design"].indexOf(address.split("/")[1] ?? "");
  const first = (/** @type {string} */ address) => (address.endsWith("/index") ? -1 : 0);
  return addresses.toSorted((a, b) => first(a) - first(b) || last(a) - last(b) || a.localeCompare(b));
};

/** @param {readonly string[]} list @param {string} one */
const place = (list, one) => (list.includes(one) ? list.indexOf(one) : list.length);

/** The path of a page in a browser. @param {string} address */
export const linkOf = (address) => `/${address.replace(/(^|\/)index$/, "$1")}`;

/** @param {string} title */
const shortTitle = (title) =>
  title
    .replace(/ (?:of|in) @kit\/\w+/, "")
    .replace(/^(\d{4}): /, "$1 ")
    .replace(/: .*$/, "");
