import { ts } from "./comments.mjs";
import { rowsOf } from "./errors.mjs";
import { table } from "./markdown.mjs";
import { remedies } from "./remedies.mjs";

/** @typedef {{ source: string, folder: string, files: readonly import("typescript").SourceFile[] }} Source A package's name, folder, and files `errors.ts`. */

const intro = `# Errors A to Z

Every error of kit is a \`KitError\` with one of these codes. The codes are stable; the texts are not. An error's fields have the details, and
\`cause\` has the original error. Compare the \`code\`, or use \`instanceof\` with the class, which also recognizes errors of another installed copy.

\`retryable\` says whether you can repeat the same call: it may succeed later, and all tries together have one effect. \`retry\` of
[\`@kit/core\`](../../packages/core/README.md#repeat-what-may-be-repeated) repeats such calls. An invalid option throws a \`TypeError\` or a \`RangeError\` instead, and an abort rejects with your \`signal.reason\`.

This page is made from the code by \`npm run reference\`.`;

/**
 * The page of all codes, and the codes without a remedy.
 * @param {readonly Source[]} sources
 */
export function errorPage(sources) {
  const entries = sources
    .flatMap((source) =>
      rowsOf(source.files).map((row) => ({ ...row, ...source, ...parts(row.text, classOf(row.name, source.files)) })),
    )
    .sort((a, b) => (a.code < b.code ? -1 : 1));
  const index = entries.map(({ code, name, folder, retry }) => [
    `[\`${code}\`](#${code.toLowerCase()})`,
    `[\`${name}\`](../../packages/${folder}/docs/reference.md#errors)`,
    retry === undefined ? "no" : /^, (?:if|unless|except)\b/.test(retry) ? "in part" : "yes",
  ]);
  const sections = entries.map(({ code, name, folder, retry, when, source }) =>
    [
      `## ${code}`,
      `\`${name}\` of [\`${source}\`](../../packages/${folder}/README.md).`,
      `${when}.`,
      `**What to do.** ${remedies[code] ?? "See above."}`,
      `**Retryable:** ${retry === undefined ? "no" : `yes${retry}`}.`,
    ].join("\n\n"),
  );
  const codes = new Set(entries.map(({ code }) => code));
  const problems = [
    ...[...codes]
      .filter((code) => !Object.hasOwn(remedies, code))
      .map((code) => `${code} has no remedy in tooling/bootstrap/reference/remedies.mjs`),
    ...Object.keys(remedies)
      .filter((code) => !codes.has(code))
      .map((code) => `tooling/bootstrap/reference/remedies.mjs: there is no ${code}`),
  ];
  return { text: [intro, table(["Code", "Class", "Retryable"], index), ...sections].join("\n\n"), problems };
}

/** Splits a comment into what it says of the cause, and of a repetition. @param {string} text @param {string} source The class. */
function parts(text, source) {
  const [sentence, not, words = ""] = /(?<=^|\. )(?:(Not r)|R)etryable((?:(?!\. [A-Z]).)*)(?:\. |$)/.exec(text) ?? [];
  const when = (sentence === undefined ? text : text.replace(sentence, "")).replace(/[. ]+$/, "");
  if (not !== undefined) return { when, retry: undefined };
  if (sentence !== undefined) return { when, retry: words.replace(/^ /, ", ") };
  return { when, retry: /\bretryable: true\b/.test(source) ? "" : undefined };
}

/** The text of a class with a code of its own. @param {string} name @param {Source["files"]} files */
const classOf = (name, files) =>
  files
    .flatMap(({ statements }) => [...statements])
    .find((one) => ts.isClassDeclaration(one) && one.name?.text === name && /super\(\s*"KIT_/.test(one.getText()))
    ?.getText() ?? "";
