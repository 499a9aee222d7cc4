import { spawn, spawnSync } from "node:child_process";
import { Socket } from "node:net";
import { constants } from "node:os";

// A network namespace for the whole run. Its firewall rules affect no other process and vanish with its last one.
const mark = "KIT_FAULTS_NETWORK";

// The sbin folders are not on every PATH.
const env = { ...process.env, PATH: `${process.env["PATH"] ?? ""}:/usr/sbin:/sbin` };

const has = (program: string, ...args: string[]): boolean =>
  spawnSync(program, args, { stdio: "ignore", env }).status === 0;

/** The reason why this machine cannot make a network namespace; undefined if it can. */
const whyNot = (): string | undefined => {
  if (process.platform !== "linux") return "it needs Linux";
  if (process.getuid?.() !== 0) return "it needs root";
  if (!has("nft", "--version")) return "there is no nft (Debian: apt-get install nftables)";
  if (!has("unshare", "--net", "ip", "link", "set", "lo", "up")) return "no network namespace can be made here";
  return undefined;
};

/** The reason why this process can have no firewall rules; undefined if it can. */
export const noFirewall = (): string | undefined =>
  process.env[mark] === undefined ? (whyNot() ?? "the run is not in a network of its own") : undefined;

/** Runs this program again in a network namespace. Undefined if that is impossible or already so. */
export const inOwnNetwork = async (): Promise<number | undefined> => {
  if (process.env[mark] !== undefined) {
    // The other end of the pipe is with our parent. When the parent ends, so do we.
    new Socket({ fd: 3 })
      .on("close", () => process.exit(143))
      .resume()
      .unref();
    return undefined;
  }
  if (whyNot() !== undefined) return undefined;
  const script = 'ip link set lo up && exec "$0" "$@"';
  const command = ["--net", "--", "sh", "-c", script, process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  const child = spawn("unshare", command, {
    stdio: ["inherit", "inherit", "inherit", "pipe"],
    env: { ...env, [mark]: "1" },
  });
  // A terminal signals both processes. Any other sender signals only this one, which passes it on.
  const pass = (signal: NodeJS.Signals): void => void child.kill(signal);
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, pass);
  return await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code, signal) => resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal])));
  });
};

const nft = (...args: string[]): string => {
  const { status, stdout, stderr } = spawnSync("nft", args, { encoding: "utf8", env });
  if (status !== 0) throw new Error(`nft ${args.join(" ")}: ${stderr.trim()}`);
  return stdout;
};

const table = ["inet", "faults"];

/** Drops every packet from (`sport`) or to (`dport`) a port; `dropped()` counts them. */
export const dropPackets = (port: number, ...sides: readonly ("sport" | "dport")[]): void => {
  nft("add", "table", ...table);
  nft("add", "chain", ...table, "input", "{ type filter hook input priority 0; }");
  for (const side of sides) nft("add", "rule", ...table, "input", "tcp", side, String(port), "counter", "drop");
};

export const droppedPackets = (): number =>
  [...nft("list", "table", ...table).matchAll(/counter packets (\d+)/g)].reduce(
    (sum, [, count]) => sum + Number(count),
    0,
  );

export const passPackets = (): void => void nft("delete", "table", ...table);
