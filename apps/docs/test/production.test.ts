// Executes the ACL user of production.md, and without an engine its fragments for Docker and Kubernetes.
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { connect, type KitError } from "@kit/core";
import { createLock } from "@kit/lock";
import { descriptor as lockDescriptor } from "@kit/lock/descriptor";
import { createQueue } from "@kit/queue";
import { descriptor as queueDescriptor } from "@kit/queue/descriptor";
import { eventually, startRedis } from "@kit/testing";
import { aclUser, Program } from "@tooling/vitest/helpers";
import { patient, said } from "./said.js";
import { expect, it, onTestFinished } from "vitest";
import { parse } from "yaml";
import { buildImage, writeProject } from "./image.js";
import { Partner } from "./partner.js";

const run = promisify(execFile);
const programs = new URL("frameworks/", import.meta.url);
const textOf = (file: string, base: URL = programs): string => readFileSync(new URL(file, base), "utf8");
const page = textOf("../production.md", new URL(import.meta.url));

const fragment = (language: string): string => {
  const [, text = ""] = new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, "ms").exec(page) ?? [];
  return text;
};

/** A number of the page or of a program. */
const number = (text: string, before: RegExp): number => {
  const [found, digits = ""] = new RegExp(`${before.source}([\\d_]+)`).exec(text) ?? [];
  if (found === undefined) throw new Error(`There is no number after ${before.source}`);
  return Number(digits.replaceAll("_", ""));
};

interface Container {
  readonly command: readonly string[];
  readonly env: readonly { readonly name: string; readonly value?: string }[];
  readonly lifecycle: { readonly preStop: { readonly exec: { readonly command: readonly [string, ...string[]] } } };
  readonly readinessProbe: Probe & { readonly timeoutSeconds: number };
  readonly livenessProbe: Probe;
}
interface Probe {
  readonly httpGet: { readonly path: string; readonly port: number };
}
const { spec } = parse(fragment("yaml")) as {
  readonly spec: { readonly terminationGracePeriodSeconds: number; readonly containers: readonly Container[] };
};
const container = spec.containers[0]!;

const begin = async (
  file: URL,
  partner: string,
  { port = 0, execArgv = [] }: { readonly port?: number; readonly execArgv?: readonly string[] } = {},
): Promise<{ program: Program; server: RunningServer }> => {
  const server = await startRedis();
  const program = new Program(file, { REDIS_URL: server.url, PARTNER_URL: partner, PORT: String(port) }, execArgv);
  onTestFinished(async () => {
    await program.end("SIGKILL");
    await server.stop();
  });
  return { program, server };
};
type RunningServer = Awaited<ReturnType<typeof startRedis>>;

const usersLine = "user app on >password ";

/** Makes the user of these lines, lets the lock and the queue work as it, and returns the codes of their errors. */
const errorsOf = async (...lines: readonly string[]): Promise<readonly string[]> => {
  const server = await startRedis();
  onTestFinished(() => server.stop());
  for (const line of lines)
    await server.call(
      "ACL",
      "SETUSER",
      ...line
        .replace(/^user /, "")
        .trim()
        .split(/\s+/),
    );
  const redis = await connect({ url: server.url.replace("//", "//app:password@") });
  const codes: string[] = [];
  const note = ({ code }: KitError): void => void codes.push(code);
  const lock = createLock(redis).on("error", note);
  const queue = createQueue(redis, "shop").on("error", note);
  const job = new Promise<void>((resolve) => queue.work({ order: () => resolve() }).on("error", note));
  await lock.using("item:42", () => queue.add("order", {}));
  await job;
  await lock.close();
  await queue.close();
  await redis.close();
  return codes;
};

it("the ACL line is that of both packages, and lets them work", async () => {
  const [, rules = ""] = new RegExp(`^${usersLine}(.*?)^\`\`\`$`, "ms").exec(page) ?? [];
  const granted = rules.split(/\s+/).filter((word) => /^[~&+]/.test(word));
  const users = [lockDescriptor, queueDescriptor].map(aclUser);
  expect(new Set(granted)).toEqual(new Set(users.flatMap((user) => user.grants("cluster"))));
  expect(await errorsOf(usersLine + rules)).toEqual([]);
});

it("the lines of two packages, one after the other, take rights of the first away", async () => {
  const lines = [lockDescriptor, queueDescriptor].map(
    (one) => `${usersLine}resetchannels -@all ${aclUser(one).grants("single").join(" ")}`,
  );
  expect(new Set(await errorsOf(...lines))).toEqual(new Set(["KIT_NO_PERMISSION"]));
});

it("the lines of the Dockerfile make a worker that ends its job after SIGTERM, and exits with 0 in time", async () => {
  const disk = mkdtempSync(join(tmpdir(), "kit-image-"));
  onTestFinished(() => rmSync(disk, { recursive: true, force: true }));
  const context = join(disk, "context");
  mkdirSync(join(context, "node_modules/leftover"), { recursive: true });
  writeProject(context, programs, ["@kit/core", "@kit/queue", "ioredis"]);
  const [, ignored = ""] = /List `(\S+)` in `.dockerignore`/.exec(page) ?? [];

  const image = buildImage(fragment("dockerfile"), context, [ignored], join(disk, "root"));
  expect(image).toMatchObject({ base: expect.stringMatching(/^node:(?:2[02468])-/) as string, user: "node" });
  const installed = readdirSync(join(image.folder, "node_modules"));
  expect(installed).toEqual(expect.arrayContaining(["@kit", "ioredis"]));
  for (const unwanted of ["leftover", "unneeded"]) expect(installed).not.toContain(unwanted);

  const partner = await Partner.start();
  onTestFinished(() => partner[Symbol.asyncDispose]());
  const [node, file = ""] = image.command;
  expect(node).toBe("node"); // not npm or a shell
  const { program, server } = await begin(pathToFileURL(join(image.folder, file)), partner.url);
  await said(program, "works");
  const redis = await connect(server.url);
  const queue = createQueue(redis, "shop");
  await queue.add("order", {});
  await eventually(() => expect(partner.held).toHaveLength(1), patient);
  const stopAt = performance.now();
  program.signal("SIGTERM");
  // The worker waits for no more work.
  await eventually(async () => expect(await redis.call("CLIENT", "LIST")).not.toContain(":queue-wait"), patient);
  await queue.add("order", {}); // for another process
  partner.held[0]!.answer({});
  expect(await program.ended()).toBe(0);
  expect((performance.now() - stopAt) / 1_000).toBeLessThan(number(page, /docker stop --time /));
  expect(await redis.hlen("kit:queue:{shop}:jobs")).toBe(1);
  expect(partner.received).toHaveLength(1);
  await queue.close();
  await redis.close();
});

it("the probes of the manifest are answered, and only that of readiness depends on Redis", async () => {
  const [node, file = ""] = container.command;
  expect(node).toBe("node");
  const { program, server } = await begin(new URL(file, programs), "http://127.0.0.1:9");
  const origin = `http://127.0.0.1:${await said(program, "listens")}`;
  const probe = async ({ httpGet: { path } }: Probe): Promise<number> => (await fetch(origin + path)).status;
  await eventually(async () => expect(await probe(container.readinessProbe)).toBe(200), patient);
  expect(await probe(container.livenessProbe)).toBe(200);

  const [redis] = server.nodes;
  redis!.pause();
  expect(await probe(container.readinessProbe)).toBe(503);
  expect(await probe(container.livenessProbe)).toBe(200);
  redis!.resume();

  const [command, ...args] = container.lifecycle.preStop.exec.command;
  const stopped = run(command, args);
  await eventually(async () => expect(await probe(container.readinessProbe)).toBe(200), patient);
  await stopped;
  expect(await program.end("SIGTERM")).toBe(0);
});

it("a worker with alive.mjs answers the liveness probe, while its process runs, and ends at SIGTERM", async () => {
  const folder = mkdtempSync(join(tmpdir(), "kit-alive-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const alive = join(folder, "alive.mjs");
  writeFileSync(alive, fragment("js"));
  const [, worker = ""] = /"--import", "\.\/alive\.mjs", "(\S+)"\]/.exec(page) ?? [];
  const unused = createServer().listen(0);
  await once(unused, "listening");
  const { port } = unused.address() as AddressInfo;
  await new Promise((resolve) => unused.close(resolve));
  const { program, server } = await begin(new URL(worker, programs), "http://127.0.0.1:9", {
    port,
    execArgv: ["--import", alive],
  });
  const { path } = container.livenessProbe.httpGet;
  // The probe's time limit in Kubernetes, unless it has another one.
  const probe = async (): Promise<number> =>
    (await fetch(`http://127.0.0.1:${String(port)}${path}`, { signal: AbortSignal.timeout(1_000) })).status;
  await said(program, "works");
  await eventually(async () => expect(await probe()).toBe(200), patient);
  server.nodes[0]!.pause();
  await eventually(async () => expect(await probe()).toBe(200), patient);
  server.nodes[0]!.resume();
  program.signal("SIGSTOP");
  await expect(probe()).rejects.toThrow(/timeout/);
  program.signal("SIGCONT");
  await eventually(async () => expect(await probe()).toBe(200), patient);
  expect(await program.end("SIGTERM")).toBe(0);
});

it("the manifest has the ports and variables of the programs, and probes wait longer than these", () => {
  const file = container.command[1] ?? "";
  const read = [...(textOf(file) + textOf("jobs.mjs")).matchAll(/process\.env\["(\w+)"\]/g)].map(([, name]) => name);
  expect(new Set(container.env.map(({ name }) => name))).toEqual(new Set(read));
  const port = Number(container.env.find(({ name }) => name === "PORT")?.value);
  expect(container.readinessProbe.httpGet.port).toBe(port);
  expect(container.livenessProbe.httpGet.port).toBe(port);
  expect(container.readinessProbe.timeoutSeconds * 1_000).toBeGreaterThan(
    number(textOf("jobs.mjs"), /health\(redis, /),
  );
});

it("platforms wait for longer than the limits of the programs together", () => {
  const deploys = textOf("../../../packages/queue/docs/deploys.md", new URL(import.meta.url));
  const afterwards = number(deploys, /`abortGraceMs` \(/) + number(deploys, /`deadlineMs` \(/);
  const ofWorker = number(textOf("worker.mjs"), /timeoutMs: /) / 1_000 + afterwards;
  const ofServer =
    number(textOf("jobs.mjs"), /waitMs = /) / 1_000 + number(textOf("express.mjs"), /timeoutMs: /) / 1_000 + afterwards;
  const preStop = Number(container.lifecycle.preStop.exec.command[1]);
  expect(number(page, /docker stop --time /)).toBeGreaterThan(Math.max(ofWorker, ofServer));
  expect(number(page, /stop_grace_period: /)).toBe(number(page, /docker stop --time /));
  expect(spec.terminationGracePeriodSeconds).toBeGreaterThan(preStop + ofServer);
});
