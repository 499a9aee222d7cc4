import { gzipSync } from "node:zlib";
import { readGzip, readLines } from "@kit/logship";

// The readers work without Redis, over any blocks of bytes.
const content = Buffer.concat([gzipSync("one\ntw"), gzipSync("o\nthree")]);
const blocks = (async function* () {
  for (let at = 0; at < content.length; at += 7) yield content.subarray(at, at + 7);
})();
for await (const { lines } of readLines(readGzip(blocks), { maxLineBytes: 65_536, onLongLine: "split" }))
  console.log(lines.join(" | "));
// prints: one
// prints: two
// prints: three
