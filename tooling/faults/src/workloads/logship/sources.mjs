// The files that are shipped and processed, and the results that consumers store. The text of a file follows from its
// name, so that it is the same in every process.
import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import { seeded } from "@tooling/lab";

export const noChain = { offset: 0, sha256: "" };

/** Each line's hash covers all lines before it, so that a process that resumes after a commit needs only the last hash. */
export const chained = ({ offset, sha256 }, lines) => {
  for (const line of lines) {
    sha256 = createHash("sha256").update(sha256).update(line).digest("hex");
    offset += Buffer.byteLength(line) + 1;
  }
  return { offset, sha256 };
};

export const chainText = ({ offset, sha256 }) => `${String(offset)} ${sha256}`;

export const parseChain = (text = "0 ") => {
  const [offset, sha256] = text.split(" ");
  return { offset: Number(offset), sha256 };
};

export const linesOf = (name, seed) => {
  const random = seeded(
    createHash("sha256")
      .update(`${String(seed)} ${name}`)
      .digest()
      .readInt32LE(0),
  );
  const count = random() < 0.1 ? 0 : 20 + Math.floor(random() * 600);
  return Array.from({ length: count }, (_, index) => {
    const word = `w${String(Math.floor(random() * 7))}`;
    return `${word} ${name} ${String(index)} ${(random() * 2 ** 32).toString(36)}${"é😀".repeat(Math.floor(random() * 4))}`;
  });
};

/** Whether the gzip bytes of a file are shipped as they are. */
export const isPassedThrough = (name) => /[05]\.log\.gz$/.test(name);

const textOf = (lines) => lines.map((line) => `${line}\n`).join("");

export const bytesOf = (name, seed) => {
  const lines = linesOf(name, seed);
  if (!name.endsWith(".gz")) return Buffer.from(textOf(lines));
  const half = lines.length >> 1;
  return Buffer.concat([lines.slice(0, half), [], lines.slice(half)].map((part) => gzipSync(textOf(part))));
};

/** The lines of a file in another container: the first half of them, or all, plain or as gzip, whatever its name says. */
export const containedOf = (name, seed, isHalf, isGzip) => {
  const lines = linesOf(name, seed);
  const text = textOf(isHalf ? lines.slice(0, lines.length >> 1) : lines);
  return isGzip ? gzipSync(text) : Buffer.from(text);
};

export const wordsOf = (lines) => {
  const words = new Map();
  for (const line of lines) words.set(line.slice(0, 2), (words.get(line.slice(0, 2)) ?? 0) + 1);
  return words;
};

export const collector = (consumer, stored, contradicted) => {
  const chains = new Map();
  return async (lines, results, at) => {
    const { file, offset } = at;
    let chain = chains.get(file) ?? noChain;
    // Another process has gone on meanwhile, or lines without a stored result are read again.
    if (chain.offset !== offset) {
      chain = offset === 0 ? noChain : parseChain((await stored()).get(file));
      const what = `${file} goes on at ${String(offset)}, its results at ${String(chain.offset)}`;
      if (chain.offset !== offset) contradicted(what, at);
    }
    chain = chained(chain, lines);
    chains.set(file, chain);
    results.increment(`lines-${consumer}`, file, lines.length);
    results.set(`chain-${consumer}`, file, chainText(chain));
    for (const [word, count] of wordsOf(lines)) results.increment(`words-${consumer}`, word, count);
  };
};
