// Log lines, the same in every process and run: about 100 bytes each, which gzip -1 makes five times smaller.
import { createWriteStream } from "node:fs";
import { finished } from "node:stream/promises";
import { seededBelow } from "@tooling/lab";

const paths = ["/", "/index.html", "/articles/", "/api/v1/items/", "/static/app.js", "/images/logo.png"];
const agents = ["Mozilla/5.0 (X11; Linux x86_64)", "Mozilla/5.0 (Windows NT 10.0)", "curl/8.5.0"];
const statuses = ["200", "200", "200", "304", "404", "500"];

const blockOf = (seed: number, bytes: number): Buffer => {
  const random = seededBelow(seed);
  const of = (list: readonly string[]): string => list[random(list.length)] ?? "";
  const lines: string[] = [];
  for (let size = 0, seconds = 0; size < bytes;) {
    const address = `10.${String(random(256))}.${String(random(256))}.${String(random(256))}`;
    seconds += random(2);
    const at = `01/Mar/2026:13:${String(Math.floor(seconds / 60) % 60).padStart(2, "0")}:${String(seconds % 60).padStart(2, "0")}`;
    const path = `${of(paths)}${String(random(100_000))}`;
    const line = `${address} - - [${at} +0000] "GET ${path} HTTP/1.1" ${of(statuses)} ${String(random(50_000))} "${of(agents)}"\n`;
    lines.push(line);
    size += line.length;
  }
  return Buffer.from(lines.join(""));
};

const poolBytes = 16_777_216;
let pool: Buffer | undefined;

/** About `bytes` bytes, in blocks of whole lines. It repeats every 16 MiB, farther apart than gzip's window. */
export function* logBlocks(bytes: number): Generator<Buffer> {
  pool ??= blockOf(7, poolBytes);
  for (let left = bytes; left > 0; left -= pool.length)
    if (left >= pool.length) yield pool;
    else yield pool.subarray(0, pool.lastIndexOf(10, left) + 1);
}

export const writeLog = async (path: string, bytes: number): Promise<void> => {
  const file = createWriteStream(path);
  for (const block of logBlocks(bytes)) file.write(block);
  file.end();
  await finished(file);
};
