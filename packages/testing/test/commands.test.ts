import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { commandNames, commandOf62 } from "../src/commands.js";
import { startRedis, type RedisServer } from "../src/index.js";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(async () => {
  await server.stop();
});

describe("the commands of Redis 6.2", () => {
  it("are all known to the server, with their keys where it says", async () => {
    const info = (await server.call("COMMAND", "INFO", ...commandNames())) as (unknown[] | null)[];
    const said = info.map((entry) => {
      const [name, , flags, first, last, step] = entry as [string, number, string[], number, number, number];
      return { name, isForScripts: !flags.includes("noscript"), keys: [first, last, step] };
    });
    const ours = commandNames().map((name) => {
      const keys = commandOf62(name)?.keys;
      return {
        name,
        isForScripts: true,
        keys: keys ? [keys.from + 1, keys.to < 0 ? -1 : keys.to + 1, keys.step] : [0, 0, 0],
      };
    });
    // Servers count the keys of these in subcommands, which we leave unchecked.
    const differing = new Set(["memory", "object", "xgroup", "xinfo"]);
    const compared = (list: typeof ours) => list.filter(({ name }) => !differing.has(name));
    expect(compared(said)).toEqual(compared(ours));
  });

  it("hold none that came later, by the server's own documentation", async () => {
    // COMMAND DOCS came with 7.0; an older server knows no later command in the first place.
    const docs = (await server.call("COMMAND", "DOCS", ...commandNames()).catch(() => [])) as (string | string[])[];
    const later: string[] = [];
    for (let at = 0; at < docs.length; at += 2) {
      const facts = docs[at + 1] as string[];
      const since = facts[facts.indexOf("since") + 1] ?? "";
      const [major = 0, minor = 0] = since.split(".").map(Number);
      if (major > 6 || (major === 6 && minor > 2)) later.push(`${String(docs[at])} ${since}`);
    }
    expect(later).toEqual([]);
  });

  it("lack what 7.0 and later brought", () => {
    const newer = ["lmpop", "zintercard", "expiretime", "hexpire", "set2", "fcall", "waitaof"];
    expect(newer.filter((name) => commandOf62(name))).toEqual([]);
  });
});
