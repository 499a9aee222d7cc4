import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { expectTypeOf } from "vitest";
import { describe, expect, it } from "vitest";
import { Cluster, Redis } from "ioredis";
import * as kit from "../src/index.js";
import * as toolkit from "../src/toolkit/index.js";
import { runProgram } from "./harness.js";

const require = createRequire(import.meta.url);
const forUsers = [
  "KitClosedError",
  "KitConflictError",
  "KitError",
  "KitKeyTypeError",
  "KitUnavailableError",
  "KitUnknownOutcomeError",
  "connect",
  "defineScript",
  "health",
  "keyspace",
  "optimistic",
  "retry",
];
const forAuthors = [
  "Deadline",
  "ObjectLife",
  "OutageReporter",
  "OwnAbortController",
  "TypedEmitter",
  "addressOf",
  "asKitError",
  "assertConnections",
  "atDeadline",
  "attach",
  "attachedReplicas",
  "backoffMs",
  "boolean",
  "choice",
  "clientRules",
  "closeTimeoutMs",
  "clusterMembers",
  "countText",
  "counted",
  "custom",
  "dated",
  "decodedName",
  "defaultsOf",
  "evictionPolicy",
  "expiryOf",
  "holdErrors",
  "inTime",
  "infoFields",
  "integer",
  "integerOption",
  "isClusterClient",
  "isForbidden",
  "isReplyError",
  "lowerBoundMs",
  "matching",
  "nameIn",
  "nested",
  "newToken",
  "noAnswer",
  "nullable",
  "onAbort",
  "ownContext",
  "pause",
  "reading",
  "replyOf",
  "required",
  "resolve",
  "secondsText",
  "serverError",
  "serverVersion",
  "settled",
  "signal",
  "slotOf",
  "stored",
  "text",
  "textOption",
  "traceCarrier",
  "traced",
  "untilAborted",
  "watchEviction",
  "withCaller",
  "withContext",
];

describe("the package", () => {
  it("exports exactly this, in both formats", () => {
    expect(Object.keys(kit).sort()).toEqual(forUsers);
    expect(Object.keys(require("../dist/index.cjs") as object).sort()).toEqual(forUsers);
    expect(Object.keys(toolkit).sort()).toEqual(forAuthors);
    expect(Object.keys(require("../dist/toolkit.cjs") as object).sort()).toEqual(forAuthors);
  });

  it("has classes of errors that Node prints by their names", () => {
    for (const built of ["../dist/index.js", "../dist/index.cjs"]) {
      const errors = Object.entries(require(built) as object).filter(([name]) => name.endsWith("Error"));
      expect(errors.map(([, { name }]: [string, { name: string }]) => name)).toEqual(errors.map(([name]) => name));
      expect(errors.length).toBeGreaterThan(4);
    }
  });

  it("has every source file in one entry only, so that what it keeps in memory is kept once", () => {
    const entries = readdirSync("dist").filter((file) => file.endsWith(".js.map"));
    const carriedBy = new Map<string, string[]>();
    for (const entry of entries) {
      const { sources } = JSON.parse(readFileSync(`dist/${entry}`, "utf8")) as { sources: string[] };
      for (const source of sources) carriedBy.set(source, [...(carriedBy.get(source) ?? []), entry]);
    }
    expect(carriedBy.size).toBeGreaterThan(40);
    expect([...carriedBy].filter(([, entries]) => entries.length > 1)).toEqual([]);
  });

  it("takes clients of any ioredis by their shape", () => {
    expectTypeOf<Redis>().toExtend<kit.RedisLike>();
    expectTypeOf<Cluster>().toExtend<kit.RedisLike>();
    expectTypeOf<kit.Connection>().toExtend<kit.RedisLike>();
    expectTypeOf<{ status: string }>().not.toExtend<kit.RedisLike>();
    // The assertions above are the compiler's; this one is for the runner, which wants to see one.
    expect(Redis).toBeTypeOf("function");
  });

  it("types the operands of a script by their names", () => {
    const script = kit.defineScript({
      name: "t.t",
      source: "return 1",
      keys: ["a", "...rest"],
      args: ["n"],
      reply: Number,
    });
    type Keys = Parameters<typeof script.run>[1];
    expectTypeOf<Keys>().toEqualTypeOf<{ readonly a: string; readonly rest: readonly string[] }>();
    expectTypeOf<Awaited<ReturnType<typeof script.run>>>().toEqualTypeOf<number>();
    // @ts-expect-error a misspelt operand does not compile
    const wrong: Keys = { a: "k", others: [] };
    expect(Object.keys(wrong)).toContain("others");
  });

  it("loads without ioredis", async () => {
    // How long that takes, `npm run bench -- core` measures.
    const source = `
      await import("./dist/index.js");
      const { createRequire } = await import("node:module");
      const loaded = Object.keys(createRequire(import.meta.url).cache ?? {}).concat(Object.keys((await import("node:module")).default._cache));
      process.stdout.write(JSON.stringify(loaded.filter((file) => /ioredis/.test(file))));`;
    expect(await runProgram(source)).toEqual({ stdout: "[]", stderr: "", code: 0 });
  });

  it("depends on nothing but its peers, and says whose code it carries", () => {
    const manifest = JSON.parse(readFileSync("package.json", "utf8")) as Record<string, Record<string, string>>;
    expect(manifest["dependencies"]).toBeUndefined();
    expect(readFileSync("dist/LICENSE-uuid.md", "utf8")).toContain("MIT");
    expect(Object.keys(manifest["peerDependencies"]!)).toEqual(["@opentelemetry/api", "ioredis", "redis"]);
    expect(manifest["peerDependenciesMeta"]).toEqual({
      "@opentelemetry/api": { optional: true },
      ioredis: { optional: true },
      redis: { optional: true },
    });
  });
});
