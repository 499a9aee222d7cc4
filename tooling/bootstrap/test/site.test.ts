import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { publicPackages } from "../pack.mjs";
import { root } from "../repo.mjs";
import { apiPages } from "../site/api.mjs";
import { pageProblems } from "../site/built.mjs";
import { addressOf, documents } from "../site/documents.mjs";
import { machineReadable } from "../site/llms.mjs";
import { linkOf, sidebarOf } from "../site/outline.mjs";
import { site, siteProblems } from "../site/site.mjs";
import { siteText, summaryOf, templateProblems } from "../site/texts.mjs";
import { weightOf, weightReport } from "../site/weight.mjs";
import { tempFolder, writeFiles } from "./temp.js";

const page = (file: string, text = "# A page\n") => ({ file, address: addressOf(file) ?? "", title: "A page", text });

describe("the site of this repository", () => {
  it("has a place for every document, and no link that leads nowhere", () => {
    expect(siteProblems()).toEqual([]);
  });

  it("has the changes, and the programs of the READMEs on its front page", () => {
    const { pages } = site();
    const textOf = (address: string): string => pages.find((one) => one.address === address)?.text ?? "";
    expect(textOf("changelog")).toMatch(/^### @kit\/lock$/m);
    const [program = ""] =
      /^```js\n[^]*?^```$/m.exec(readFileSync(join(root, "packages/queue/README.md"), "utf8")) ?? [];
    expect(textOf("index")).toContain(program);
  });

  it("lists every page but the front for programs that read", () => {
    const made = site();
    const [[name, list], ...copies] = machineReadable(made) as [[string, string], ...[string, string][]];
    expect(name).toBe("llms.txt");
    const listed = [...list.matchAll(/^- \[.+?\]\((\S+)\): \S/gm)].map(([, path]) => path);
    expect(new Set(listed)).toEqual(new Set(copies.map(([path]) => path)));
    expect(listed).toHaveLength(copies.length);
    expect(copies).toHaveLength(made.pages.length - 1);
  });
});

it.each([
  ["packages/lock/README.md", "lock/index", "/lock/"],
  ["packages/lock/docs/read-write.md", "lock/read-write", "/lock/read-write"],
  ["packages/lock/DESIGN.md", "lock/design", "/lock/design"],
  ["apps/docs/runbooks/README.md", "runbooks/index", "/runbooks/"],
  ["apps/docs/migration/redlock.md", "migration/redlock", "/migration/redlock"],
  ["SECURITY.md", "security", "/security"],
  ["apps/site/index.md", "index", "/"],
])("%s has the address %s, which a browser shows as %s", (file, address, link) => {
  expect([addressOf(file), linkOf(address)]).toEqual([address, link]);
});

it.each(["packages/core/test/tls/README.md", ".github/pull_request_template.md", "packages/lock/CHANGELOG.md"])(
  "%s is no page",
  (file) => {
    expect(addressOf(file)).toBe(undefined);
  },
);

it("names a document without an address, and two with the same", () => {
  const folder = tempFolder();
  const text = "# A\n";
  writeFiles(folder, {
    "tooling/bench/NOTES.md": text,
    "packages/lock/docs/design.md": text,
    "packages/lock/DESIGN.md": text,
  });
  expect(documents(folder).problems).toEqual([
    "packages/lock/docs/design.md and packages/lock/DESIGN.md have the same address on the site: lock/design",
    "tooling/bench/NOTES.md has no address on the site (tooling/bootstrap/site/documents.mjs)",
  ]);
});

it("names a page that the sidebar lacks, and a place of the sidebar that is no page", () => {
  const { pages } = documents();
  const lost = sidebarOf([...pages.filter(({ address }) => address !== "faq"), page("apps/docs/poems/one.md")]);
  expect(lost.problems).toContain("the sidebar names faq, which is no page");
  expect(lost.problems).toContain("apps/docs/poems/one.md is not in the sidebar of the site");
});

describe("the links of a page", () => {
  const text = [
    "# A",
    "[sibling](docs/b.md#two) [folder](../queue) [source](src/a.ts) ![chart](a.svg) [itself](#a) [out](https://example.org)",
    "[data](a.json)",
    "`[code](src/a.ts)`",
  ].join("\n\n");
  const place = (): string => {
    const folder = tempFolder();
    writeFiles(folder, {
      "packages/lock/README.md": text,
      "packages/lock/docs/b.md": "",
      "packages/lock/src/a.ts": "",
      "packages/lock/a.svg": "",
      "packages/lock/a.json": "",
      "packages/queue/README.md": "",
    });
    return folder;
  };

  it("lead to pages, pictures and the repository", () => {
    const { text: linked, figures } = siteText(page("packages/lock/README.md", text), {
      root: place(),
      repository: "https://example.org/owner/kit",
    });
    expect(linked).toContain("[sibling](./b.md#two) [folder](../queue/index.md)");
    expect(linked).toContain("[source](https://example.org/owner/kit/blob/main/packages/lock/src/a.ts)");
    expect(linked).toContain("![chart](../figures/packages/lock/a.svg) [itself](#a) [out](https://example.org)");
    expect(linked).toContain("`[code](src/a.ts)`");
    expect(linked).toContain("[data](../figures/packages/lock/a.json)");
    expect([...figures].toSorted()).toEqual(["packages/lock/a.json", "packages/lock/a.svg"]);
  });

  it("are words where the repository has no address", () => {
    const { text: linked } = siteText(page("packages/lock/README.md", text), { root: place(), repository: undefined });
    expect(linked).toContain("[folder](../queue/index.md) source ![chart]");
  });
});

it("describes a page by its first words, not by code or a line that all pages have", () => {
  expect(summaryOf("# A\n\nPart of [`@kit/a`](x.md).\n\n```js\nx\n```\n\nIt *does* [one](y.md) thing.\n")).toBe(
    "It does one thing.",
  );
});

it("refuses what Vue would take for a template, outside of code", () => {
  const text =
    "# A\n\n`{{ a }}` and `Map<string>`\n\n```\n{{ b }}\n```\n\n{{ c }}\n\na <b> c\n\n<https://example.org>\n";
  expect(templateProblems(page("a.md", text)).map((problem) => problem.slice(0, 7))).toEqual(["a.md:9:", "a.md:11"]);
});

it("finds links of built pages that lead nowhere, below any path of a host", () => {
  const folder = tempFolder();
  writeFiles(folder, {
    "index.html":
      '<a href="/kit/lock/#two">a</a> <a href="/kit/faq#gone">b</a> <a href="/kit/lost">c</a> <a href="/other">d</a>',
    "lock/index.html":
      '<h2 id="two"></h2> <a href="../faq">e</a> <a class="x" href="#two">f</a> <a href="https://example.org">g</a>',
    "faq.html": "",
  });
  expect(pageProblems(folder, "/kit/")).toEqual([
    "index.html: /kit/faq#gone: there is no such heading",
    "index.html: /kit/lost leads to no page",
    "index.html: /other leads to no page",
  ]);
});

it("weighs what a page loads, each file once, and names a front page over its bound", () => {
  const folder = tempFolder();
  const head = [
    '<link rel="preload stylesheet" href="/kit/a.css" as="style"><link rel="modulepreload" href="/kit/b.js">',
    '<script type="module" src="/kit/a.js"></script><script>1</script><link rel="prefetch" href="/kit/c.js">',
  ].join("");
  writeFiles(folder, {
    "index.html": head,
    "big.html": `${head}<img src="/kit/a.png"><img src="/kit/a.png"><img src="data:image/png;base64,AA">`,
    "a.css": "@font-face { src: url(/kit/a.woff2) }",
    "a.js": "a".repeat(9_000),
    "b.js": "b",
    "c.js": "c",
    "a.png": "x".repeat(2_000),
    "a.woff2": "x".repeat(3_000),
  });
  const { html, scripts, ...others } = weightOf(folder, "big.html", "/kit/");
  expect(others).toEqual({ styles: expect.any(Number) as number, fonts: 3_000, pictures: 2_000 });
  expect([html, scripts].every((bytes) => bytes > 20 && bytes < 300)).toBe(true);
  const fits = weightReport(folder, ["index.html", "big.html"], "/kit/", 4);
  expect(fits.problems).toEqual([]);
  expect(fits.fact).toMatch(/^front page 4 of 4 KiB compressed \(html 1, .*; the heaviest is big\.html, 6 KiB$/);
  expect(weightReport(folder, ["index.html"], "/kit/", 3).problems[0]).toMatch(
    /^front page 4 of 3 KiB .*: over its bound/,
  );
});

describe("the page of a package's API", () => {
  const [lock] = apiPages(publicPackages().filter(({ manifest }) => manifest.name === "@kit/lock"));
  const section = (heading: string): string =>
    lock!.text.split(/^(?=#{2,4} )/m).find((part) => part.startsWith(`${heading}\n`)) ?? "";

  it("has each entry, and of each function its parameters, comment, errors and examples", () => {
    expect(section("## `@kit/lock/quorum`")).not.toBe("");
    expect(section("### createLock")).toMatch(
      /```ts\nfunction createLock\(redis: RedisLike, options\?: LockOptions\): Lock\n```\n\nCreates a lock object\./,
    );
    expect(section("### createLock")).toMatch(/\n- `TypeError \| RangeError`: .*\n\n```ts\nconst lock/);
  });

  it("has the methods of a class, also those that it inherits, and nothing private", () => {
    expect(section("#### tryAcquire")).toContain(
      "tryAcquire(name: string, options?: TryOptions): Promise<Lease | null>",
    );
    expect(section("#### handOver")).not.toBe(""); // of a class of core
    expect(lock!.text).not.toMatch(/^#+ (?:#|constructor|brand)/m);
  });

  it("leaves out what the reference has in tables", () => {
    expect(lock!.text).not.toMatch(/^### (?:LockOptions|LockLostError|LockErrorCode)$/m);
    expect(section("### LockEvents")).not.toBe("");
  });
});
