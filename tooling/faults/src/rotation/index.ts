import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { gunzipSync } from "node:zlib";
import { FaultProxy, startRedis } from "@kit/testing";
import { type Configuration, configurations } from "./configurations.js";
import { controls, subjectOf } from "./controls.js";
import { workspaceFolder } from "../lab/paths.js";
import { shims } from "../lab/shims.js";
import { randomOf } from "./random.mjs";
import { type Noted, type Verdict, verdictOn } from "./verdict.js";

/** What a run of the program is asked for. */
export interface RotationOptions {
  /** When each configuration's writer stops: after this time, or after this number of lines. */
  readonly seconds: number | undefined;
  readonly lines: number | undefined;
  readonly seed: number;
  /** Only the configurations whose names begin so. */
  readonly writer: string | undefined;
  readonly control: string | undefined;
  readonly say: (line: string) => void;
}

const rotator = "/usr/sbin/logrotate";
/** After the writer has ended, the readers have so long. */
const drainMs = 90_000;

/** Where the log and the files beside it are, and the environment of their readers. */
interface Place {
  readonly directory: string;
  readonly side: string;
  readonly env: Readonly<Record<string, string>>;
}

const childOf = (program: string, settings: object, env: Place["env"] = {}): ChildProcess =>
  spawn(process.execPath, [join(workspaceFolder, "src/rotation", program), JSON.stringify(settings)], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "ignore", "inherit"],
  });
const isRunning = ({ exitCode, signalCode }: ChildProcess): boolean => exitCode === null && signalCode === null;

/** Runs a reader, kills it at random moments while the log is written and begins it again; resolves with the number of kills once it has read all. */
const readOn = async (
  settings: object,
  { side, env }: Place,
  random: () => number,
  stop: AbortSignal,
): Promise<number> => {
  for (let kills = 0; ;) {
    const child = childOf("reader.mjs", settings, env);
    const closed = once(child, "close") as Promise<[number | null]>;
    const end = (): void => void child.kill("SIGKILL");
    stop.addEventListener("abort", end);
    void pause(400 + random() * 2_600, undefined, { signal: stop }).then(
      async () => {
        // On a busy machine a reader may need longer to start. If each one were killed before that, the writer would wait forever.
        while (!existsSync(join(side, "begun")) && isRunning(child)) await pause(50);
        if (existsSync(join(side, "written")) || !isRunning(child)) return;
        kills++;
        end();
      },
      () => undefined,
    );
    const [code] = await closed;
    stop.removeEventListener("abort", end);
    if (code === 0 || stop.aborted) return kills;
  }
};

/** Loses a reply, with its connection, at random moments until `stop`. */
const loseReplies = async ({ down }: FaultProxy, random: () => number, stop: AbortSignal): Promise<void> => {
  while (!stop.aborted) {
    await pause(200 + random() * 1_800, undefined, { signal: stop }).catch(() => undefined);
    down.cutNext = stop.aborted ? 0 : 1;
  }
};

/** The numbers of the lines that are in the files. A logger may lose some by itself, and has a file and its compressed form for a moment. */
const linesIn = (directory: string, match: string): Set<string> => {
  const lines = new Set<string>();
  for (const name of readdirSync(directory).filter((one) => new RegExp(match).test(one))) {
    const bytes = readFileSync(join(directory, name));
    const text = (name.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString();
    for (const [, number = ""] of text.matchAll(/^app (\d+) x+$/gm)) lines.add(number);
  }
  return lines;
};

const inWords = (facts: Readonly<Record<string, number>>): string =>
  Object.entries(facts)
    .map(([what, count]) => `${what} ${String(count)}`)
    .join(", ");

const runOne = async (
  configuration: Configuration,
  root: string,
  env: Place["env"],
  options: RotationOptions,
): Promise<boolean> => {
  const { name, match, live, rotated, isCopied } = configuration;
  const { seconds, seed, say } = options;
  // logrotate refuses a directory that others can write to.
  const parent = mkdtempSync(join(root, "rotation-"));
  const place = { directory: join(parent, "logs"), side: join(parent, "side"), env };
  for (const folder of [place.directory, place.side]) mkdirSync(folder, { mode: 0o755 });
  const stop = new AbortController();
  const stopNow = (): void => stop.abort();
  process.once("exit", stopNow);
  await using server = await startRedis();
  await using proxy = await FaultProxy.start({ port: server.nodes[0]!.port });
  const writer = childOf("writer.mjs", {
    ...configuration,
    ...place,
    lines: options.lines ?? 1e9,
    seconds: seconds ?? 1e6,
    seed,
  });
  const endWriter = (): void => void writer.kill("SIGKILL");
  process.once("exit", endWriter);
  const writing = once(writer, "close") as Promise<[number | null]>;
  const ways = isCopied ? ["job", "add"] : ["job", "add", "follow"];
  const subject = subjectOf(options.control);
  const began = performance.now();
  const reading = ways.map((way) => {
    const settings = { way, subject, url: proxy.url, ...place, match, live, rotated };
    return readOn(settings, place, randomOf(`${String(seed)} ${name} ${way}`), stop.signal);
  });
  let isStuck = false;
  let timer: NodeJS.Timeout | undefined;
  const isOver = new AbortController();
  const losing = loseReplies(proxy, randomOf(`${String(seed)} ${name} replies`), isOver.signal);
  const [code] = await writing;
  isOver.abort();
  await losing;
  if (code === 0)
    timer = setTimeout(() => {
      isStuck = true;
      stopNow();
    }, drainMs);
  else stopNow();
  const kills = (await Promise.all(reading)).reduce((sum, count) => sum + count, 0);
  clearTimeout(timer);
  process.removeListener("exit", stopNow);
  process.removeListener("exit", endWriter);

  const eventsFile = join(place.side, "events");
  const noted = existsSync(eventsFile)
    ? readFileSync(eventsFile, "utf8")
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line) as Noted)
    : [];
  const truth = linesIn(place.directory, match);
  const written = code === 0 ? Number(readFileSync(join(place.side, "written"), "utf8")) : 0;
  const verdicts: Verdict[] = [];
  const client = server.client();
  for (const way of ways) {
    const counts = await client.hgetall(`rotation:logship:{${way}}:results:${way === "job" ? "" : "c:"}lines`);
    verdicts.push(verdictOn(way, truth, new Map(Object.entries(counts)), noted));
  }
  const files = readdirSync(place.directory).length;
  const isRight = code === 0 && !isStuck && verdicts.every((one) => one.isRight);
  say(
    `${isRight ? "ok    " : "FAILED"} ${name}: ${String(written)} lines written, ${String(truth.size)} in ${String(files)} files, ${String(kills)} kills, ${String(proxy.stats.resets)} lost replies, ${((performance.now() - began) / 1_000).toFixed(0)} s${isStuck ? `, not read within ${String(drainMs / 1_000)} s` : ""}${code === 0 ? "" : `, the writer ended with ${String(code)}`}`,
  );
  for (const { way, counted, lost, doubled, odd, events } of verdicts) {
    const some = [...lost.slice(0, 3), ...doubled.slice(0, 3), ...odd.slice(0, 3)].join(", ");
    say(
      `  ${way.padEnd(7)} ${String(counted)} counted, ${String(lost.length)} lost, ${String(doubled.length)} doubled, ${String(odd.length)} odd; events: ${inWords(events) || "none"}${some === "" ? "" : `; for example ${some}`}`,
    );
  }
  if (isRight || options.control !== undefined) rmSync(parent, { recursive: true });
  else say(`  kept in ${parent}`);
  return isRight;
};

/** A folder from a disk image can lack a birth time, while new files have one. */
const hasBirthTimes = (root: string): boolean => {
  const made = mkdtempSync(join(root, "rotation-"));
  const { birthtimeNs } = statSync(made, { bigint: true });
  rmSync(made, { recursive: true });
  return birthtimeNs > 0n;
};

/** Runs each configuration on each file system; resolves with whether every line was counted once, or an event says why not. */
export const runRotation = async (options: RotationOptions): Promise<boolean> => {
  const { writer = "", control, say } = options;
  if (control !== undefined && !controls.some(({ name }) => name === control))
    throw new Error(`There is no control "${control}". There are: ${controls.map(({ name }) => name).join(", ")}`);
  const chosen = configurations.filter(({ name }) => name.startsWith(writer));
  if (chosen.length === 0)
    throw new Error(`There is no writer "${writer}". There are: ${configurations.map(({ name }) => name).join("; ")}`);
  // A temporary folder on a disk, and one in memory, where the readers see no birth times of files.
  const roots = [...new Set([tmpdir(), "/dev/shm"])].filter((root) => existsSync(root));
  const built = shims();
  let isRight = true;
  for (const [index, root] of roots.entries()) {
    const env = index > 0 && typeof built !== "string" ? { LD_PRELOAD: built.noBirth } : {};
    const isBorn = hasBirthTimes(root) && !("LD_PRELOAD" in env);
    say(`${root}, ${isBorn ? "with" : "without"} birth times of files`);
    for (const configuration of chosen) {
      if (configuration.kind === "logrotate" && !existsSync(rotator))
        say(`not run ${configuration.name}: logrotate: not installed`);
      else if (!(await runOne(configuration, root, env, options))) isRight = false;
    }
  }
  return isRight;
};
