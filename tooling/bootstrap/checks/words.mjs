import { readdirSync, readFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { root } from "../repo.mjs";
import { markdownFiles, withoutCode } from "./links.mjs";

/** The most words of a sentence. */
const longest = 35;

/** Phrases that read like a translation, each with what to write instead. @type {readonly (readonly [RegExp, string])[]} */
const tics = [
  [/\bof (?:yours|ours|its own|their own|your own|his|theirs)\b/i, "your …, its own …"],
  [/(?<=[,\w] ?)\b(?:too|also)(?=[.,;:)]|$)/i, "as well, or nothing"],
  [/\bmend(?:s|ed|ing)?\b/i, "fix, repair"],
  [/\bstands? (?:in for|for|in|there)\b|\bstood (?:for|in|there)\b/i, "is, means, replaces"],
  [/\blies? in\b/i, "is in"],
  [/\bgoes for\b/i, "applies to"],
  [/\bby hand\b/i, "yourself, manually"],
  [/\bsome (?:\d|ten\b|twenty|thirty|forty|fifty|(?:a )?hundred\b|thousand\b)/i, "about"],
  [/\bbesides?\b/i, "in addition to, next to, with"],
  [/\bbut for\b|\ball but\b/i, "except"],
  [
    /\bby (?:the|its|their) (?:median|heartbeat|week|day|hour|minute|alphabet)\b/i,
    "at the median, with its heartbeat, weekly",
  ],
  [/\bfrom (?:a|an|one|[\w.]+ [\d.]+|[\d.]+)(?: \w+)? on\b/i, "or later; after"],
  [/\bso many\b|\bas many as\b|\beach [\d,]{4,}/i, "N, up to N, every N"],
  [/\b(?:is|are|was|were|be|been|goes|went) away\b/i, "is unavailable, unreachable"],
  [
    /\b(?:servers?|Redis|clients?|masters?|nodes?|connections?) (?:is|are|was|were) gone\b/i,
    "has failed, is unreachable",
  ],
  [/\ba second time\b|\bonce more\b/i, "again"],
  [/\bat once\b/i, "immediately; at the same time"],
  [/\bnobody\b|\bwhoever\b|\bwho waits?\b/i, "no waiter, waiters, any client that"],
  [/\bsays? so\b|\bfinds? fault\b|\bhears?\b|\bbelieves?\b/i, "reports, receives, rejects"],
  [/\bbegins?\b|\bbegan\b|\bbegun\b/i, "start"],
  [/\bin front of\b/i, "before, ahead of"],
  [/\bthe (?:most|least) that\b|\bat most so\b/i, "maximum, minimum, up to"],
  [/\bwrong options?\b/i, "an invalid option"],
  [/\bone that\b|\bthe one of\b|\bth(?:at|ose) of\b|\bthe latter\b|\bthe former\b/i, "(name it)"],
  [/\bas far as that goes\b|\bfor all that\b|\bas it comes\b/i, "(delete)"],
  [/^#+ (?:Price|What is missing|Further)$/, "Cost, Not included, More"],
];

/** Pages that are made from the code or from files, and texts that other people wrote. */
const notWritten =
  /(?:^|\/)(?:CHANGELOG\.md|reference\.md|CODE_OF_CONDUCT\.md)$|^apps\/docs\/(?:errors|defaults|fault-runs)\.md$|\/fixtures\//;

/**
 * The tics and the sentences of more than {@link longest} words in the documents.
 * @param {string} [folder]
 */
export function wordProblems(folder = root) {
  return markdownFiles(folder).flatMap((file) => {
    const name = relative(folder, file);
    if (notWritten.test(name)) return [];
    return problemsOf(readFileSync(file, "utf8")).map(({ line, problem }) => `${name}:${line}: ${problem}`);
  });
}

/**
 * The same of the doc comments in the sources of packages, from which the reference pages are made.
 * @param {string} [folder]
 */
export function commentProblems(folder = join(root, "packages")) {
  const sources = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((path) =>
    /^[^/]+\/src\/.*\.ts$/.test(path.split(sep).join("/")),
  );
  return sources.flatMap((path) => {
    const text = readFileSync(join(folder, path), "utf8");
    return [...text.matchAll(/\/\*\*(.*?)\*\//gs)].flatMap((comment) => {
      const first = text.slice(0, comment.index).split("\n").length;
      const lines = (comment[1] ?? "").split("\n").map((line) => line.replace(/^\s*\* ?/, ""));
      const example = lines.findIndex((line) => line.startsWith("@example"));
      const prose = (example < 0 ? lines : lines.slice(0, example)).map((line) => line.replace(/^@\w+ ?/, "\n"));
      // A tag starts a paragraph, which adds a line.
      return problemsOf(prose.join("\n")).map(({ problem }) => `packages/${path}:${first}: ${problem}`);
    });
  });
}

/** Texts that the command line prints, which are not errors. */
const printed = /^(?:cli\/|[^/]+\/src\/descriptor\/)/;

/**
 * The same of the texts in the sources of packages that reach a user: messages of errors, parts of them, and error replies of scripts.
 * Of what the command line prints only messages of errors count.
 * @param {string} [folder]
 */
export async function errorProblems(folder = join(root, "packages")) {
  const { textsOf } = await import("./texts.mjs");
  const sources = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((path) => path.split(sep).join("/"))
    .filter((path) => /^[^/]+\/src\/.*\.(?:ts|lua)$/.test(path));
  return sources.flatMap((path) =>
    textsOf(path, readFileSync(join(folder, path), "utf8"), printed.test(path)).flatMap(({ line, text }) =>
      problemsOf(text).map(({ problem }) => `packages/${path}:${line}: ${problem}`),
    ),
  );
}

/**
 * @param {string} text Markdown.
 * @returns {{ line: number, problem: string }[]}
 */
export function problemsOf(text) {
  return blocksOf(text).flatMap(({ line, words }) => [
    ...tics.flatMap(([tic, instead]) => {
      const found = tic.exec(words)?.[0];
      return found === undefined ? [] : [{ line, problem: `"${found.trim()}": ${instead}` }];
    }),
    ...sentencesOf(words).flatMap((sentence) => {
      const count = sentence.split(/\s+/).filter((word) => /\w/.test(word)).length;
      const start = sentence.slice(0, 60);
      return count <= longest ? [] : [{ line, problem: `a sentence of ${count} words: ${start} …` }];
    }),
  ]);
}

/**
 * Paragraphs, headings, list items and table cells, each as one line without code and targets of links.
 * @param {string} text
 */
function blocksOf(text) {
  /** @type {{ line: number, words: string }[]} */
  const blocks = [];
  let isOpen = false;
  const spans = text.replace(/(?<!`)`(?!`)[^`\n]*(?:\n[^`\n]+)?`/g, (span) => span.replace(/[^\n]/g, "x"));
  for (const [index, raw] of withoutCode(spans).split("\n").entries()) {
    const line = raw
      .replace(/\]\([^)\s]*\)/g, "]")
      .replace(/[*_[\]]/g, "")
      .trim();
    const starts = /^(?:#|[-*+] |\d+\. |\||>)/.test(line);
    if (line === "" || /^[|:\s-]+$/.test(line)) isOpen = false;
    else if (line.startsWith("|")) {
      for (const cell of line.split(/(?<!\\)\|/))
        if (cell.trim() !== "") blocks.push({ line: index + 1, words: cell.trim() });
      isOpen = false;
    } else if (isOpen && !starts) {
      const last = blocks.at(-1);
      if (last) last.words += ` ${line}`;
    } else {
      blocks.push({ line: index + 1, words: line.replace(/^(?:[-+] |\d+\. |> ?)/, "") });
      isOpen = !line.startsWith("#");
    }
  }
  return blocks;
}

/** @param {string} words */
const sentencesOf = (words) => words.split(/(?<=[.?!]["”)]?)\s+(?=["“(]?[A-Z\dx])/);
