// The first programs of all READMEs with other clients and on other runtimes than the tests'. A runtime takes part where the cache
// has it: `npm run matrix -- bun deno` fetches both.
import { createRequire } from "node:module";
import { join } from "node:path";
import { type RedisServer, startRedis } from "@kit/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { columns, type RuntimeColumn } from "../matrix/columns.mjs";
import { type OtherClient, programs, runPrograms } from "../matrix/programs.mjs";
import { cachedRuntime } from "../matrix/runtimes.mjs";
import { doctor } from "../matrix/smoke.mjs";
import { root } from "../repo.mjs";
import { tempFolder, writeProgram } from "./temp.js";

let server: RedisServer;
let env: NodeJS.ProcessEnv;
beforeAll(async () => {
  server = await startRedis();
  env = { ...process.env, REDIS_URL: server.url };
});
afterAll(() => server?.stop());

const { resolve } = createRequire(import.meta.url);
/** A client of this workspace. `installed`: its name here. */
const clientOf = (name: OtherClient["name"], of: string, installed = of): OtherClient => {
  const [found = ""] = new RegExp(`^.*/node_modules/${of}(?=/)`).exec(resolve(installed)) ?? [];
  return { name, package: of, folder: found };
};
const versionOf = ({ folder }: OtherClient): string =>
  (createRequire(import.meta.url)(join(folder, "package.json")) as { readonly version: string }).version;

const clients = [
  clientOf("iovalkey", "iovalkey"),
  clientOf("node-redis", "redis"),
  clientOf("node-redis", "redis", "redis5"),
].map((client) => ({ what: `${client.name} ${versionOf(client)}`, client }));

const runtimes = columns
  .filter((column): column is RuntimeColumn => ["bun", "deno"].includes(column.name))
  .flatMap((column) => {
    const runtime = cachedRuntime(column);
    return runtime === undefined ? [] : [{ what: `${column.name} ${column.version}`, runtime }];
  });

describe.each([...clients, ...runtimes])("the first programs of all READMEs with $what", (options) => {
  it("print what they say, and end by themselves", async () => {
    await server.call("FLUSHALL");
    const { ran, problem } = await runPrograms(tempFolder(), env, options);
    expect(problem).toBeUndefined();
    expect(ran).toEqual(programs().map(({ name }) => name));
    expect(ran).toContain("@kit/queue");
  });
});

describe.each(runtimes)("the doctor with $what", ({ runtime }) => {
  it("has nothing to say about an empty server", async () => {
    expect(await doctor(root, join(root, "packages/cli/dist/main.js"), env, runtime)).toBeUndefined();
  });
});

it("names the package whose program prints something else", async () => {
  const runtime = [writeProgram(tempFolder(), "runtime", "# core.mjs\nsomething else")] as [string];
  const { ran, problem } = await runPrograms(tempFolder(), env, { names: ["@kit/core", "@kit/lock"], runtime });
  expect(ran).toEqual([]);
  expect(problem).toBe("the program of @kit/core (the process ended with 0) printed\nsomething else\n");
});
