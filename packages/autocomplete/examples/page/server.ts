// A search box over 100,000 names, on http://localhost:8080. Node 22.18 and later run this file as it is.
import { readFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { fileURLToPath } from "node:url";
import { createPrefixIndex, type PrefixIndex } from "@kit/autocomplete";
import { connect } from "@kit/core";

/** Serves a page with a search box over an index. It needs no framework, and neither does the page. */
export const searchServer = (names: Pick<PrefixIndex, "suggest">): Server =>
  createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://localhost");
    const gone = new AbortController();
    // The page ends a request when the next key is hit.
    response.on("close", () => gone.abort());
    const reply = (status: number, type: string, body: string | Buffer): void => {
      response.writeHead(status, { "content-type": `${type}; charset=utf-8` }).end(body);
    };
    const answer = async (): Promise<void> => {
      if (pathname === "/suggest") {
        const found = await names.suggest(searchParams.get("q") ?? "", { signal: gone.signal });
        reply(200, "application/json", JSON.stringify(found));
      } else if (pathname === "/") {
        reply(200, "text/html", await readFile(new URL("index.html", import.meta.url)));
      } else {
        reply(404, "text/plain", "There is no such page");
      }
    };
    answer().catch(() => {
      if (!gone.signal.aborted) reply(503, "text/plain", "Try again");
    });
  });

const first = ["Ann", "Björn", "Chloë", "Đorđe", "Émile", "Fatma", "Gül", "Hélène", "Iñaki", "José"];
const syllables = ["ka", "to", "mi", "re", "su", "no", "la", "ve", "du", "pi"];

function* everybody(): Generator<{ id: string; text: string; weight: number }> {
  for (let at = 0; at < 100_000; at++) {
    const digits = Array.from(String(at).padStart(5, "0"), Number);
    const last = digits.slice(0, 4).map((digit) => syllables[digit] ?? "");
    const text = `${first[digits[4] ?? 0] ?? ""} ${last.join("").replace(/^./, (letter) => letter.toUpperCase())}`;
    yield { id: String(at), text, weight: (at * 7_919) % 1_000 };
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const redis = await connect();
  const names = createPrefixIndex(redis, "everybody", { order: "weight" });
  await names.rebuild(everybody());
  searchServer(names).listen(Number(process.env["PORT"] ?? 8080), "127.0.0.1");
}
