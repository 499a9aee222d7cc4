import { readFileSync } from "node:fs";
import { join } from "node:path";
import { lateOffers } from "../../lab/late-offers.js";
import { builtWith, type Mutation, wrappedBy } from "../../lab/mutation.js";
import { workspaceFolder } from "../../lab/paths.js";
import type { Setting } from "../../lab/setting.js";
import type { Control } from "../../workload.js";
import type { Invariant } from "./checker.js";

interface SemaphoreControl extends Control {
  readonly invariants: readonly Invariant[];
  /** Changes to the scripts of the built semaphore. Without them the semaphore is wrapped by the lie of the same name. */
  readonly mutations?: readonly Mutation[];
}

/** Lua that wraps `redis.call` to change replies inside a script. */
const misled = (lua: string): string =>
  `local call = redis.call function redis.call(...) local command, key = ... ${lua} end`;

/** Offers of the semaphore that come too late, by the layout of its wait queue and of the message of a grant. */
export const lateGrants: Mutation = {
  script: "release",
  operands: ["queue", "waiters"],
  lua: lateOffers({
    waiters: "'ZRANGE', queue, 0, 49",
    // Suspended waiters, whose rows begin otherwise, are offered nothing.
    facts:
      "string.match(truth.call('HGET', waiters, string.match(waiter, '^[^| ]* %d+ (.*)$') or '') or '', '^%d+ %d+ %d+ (%d+) (%S+)$')",
    message: "{ string.match(waiter, '^%S* %d+ ([^|]*)'), 'granted', string.format('%.0f', now + ms), ms }",
  }),
};

/** Deliberate faults of a semaphore, each of which the checker must detect. */
export const semaphoreControls: readonly SemaphoreControl[] = [
  {
    name: "one-too-many",
    invariants: ["S1", "held"],
    kind: "scripts flushed",
    mutations: [
      {
        script: "acquire",
        operands: ["meta"],
        lua: misled(
          "local reply = call(...) if command == 'HMGET' and key == meta and reply[2] then reply[2] = tostring(reply[2] + 1) end return reply",
        ),
      },
    ],
  },
  {
    name: "renew-creates",
    invariants: ["L5"],
    kind: "scripts flushed",
    mutations: [
      {
        script: "renew",
        operands: ["permits", "terms"],
        lua: "for i, key in ipairs(permits) do local ms, record = string.match(terms[i], '^=? (%d+) (.*)$') if not redis.call('ZSCORE', key, record) then redis.call('ZADD', key, string.format('%.0f', redis.call('TIME')[1] * 1000 + 1000 + ms), record) end end",
      },
    ],
  },
  {
    name: "release-frees-another",
    invariants: ["L5"],
    kind: "scripts flushed",
    mutations: [
      {
        script: "release",
        operands: ["permits", "permitRecord"],
        lua: "if not redis.call('ZSCORE', permits, permitRecord) then permitRecord = redis.call('ZRANGE', permits, 0, 0)[1] or permitRecord end",
      },
    ],
  },
  {
    name: "client-clock",
    invariants: ["S1", "L5", "held"],
    kind: "clients' clock jumps",
    mutations: [
      {
        script: "acquire",
        operands: ["permitRecord"],
        lua: misled(
          "if command == 'TIME' then local hour = string.match(permitRecord, '%.(%d+)$') return { string.sub(hour, 1, -4), string.sub(hour, -3) .. '000' } end return call(...)",
        ),
      },
    ],
  },
  {
    name: "late-loss",
    invariants: ["L3"],
    kind: "server stopped",
  },
  {
    name: "barging",
    invariants: ["order"],
    kind: "scripts flushed",
    mutations: [
      {
        script: "acquire",
        operands: ["queue"],
        lua: misled("if command == 'EXISTS' and key == queue then return 0 end return call(...)"),
      },
    ],
  },
  {
    name: "acquire-denies-itself",
    invariants: ["U2"],
    kind: "requests repeated",
    mutations: [
      {
        script: "acquire",
        operands: ["permits", "permitRecord"],
        lua: "if redis.call('ZSCORE', permits, permitRecord) then local time = redis.call('TIME') return { 0, time[1] * 1000 + math.floor(time[2] / 1000), 0, 1, -1, 1 } end",
      },
    ],
  },
  {
    name: "tells-nobody",
    invariants: ["S4"],
    kind: "scripts flushed",
    // Each write of a waiter's record drops its inbox.
    mutations: [
      { script: "acquire", operands: ["terms"], lua: "terms = string.gsub(terms, ' [^ ]+$', ' -')" },
      { script: "heartbeat", operands: ["inbox"], lua: "inbox = '-'" },
    ],
  },
  {
    name: "takes-late-offers",
    invariants: ["S1", "held"],
    kind: "failover behind one address",
    mutations: [lateGrants],
  },
];

/**
 * The scripts that record their writes, each with the name in its records. The library `grant` runs in every script; it
 * records as `other` where the script itself does not record.
 */
const recorded: Readonly<Record<string, string>> = {
  acquire: "acquire",
  release: "release",
  renew: "renew",
  grant: "other",
};

const recorders = (): Mutation[] => {
  const file = join(workspaceFolder, "src/workloads/semaphore/recorder.lua");
  const lines = readFileSync(file, "utf8").split("\n");
  const lua = lines
    .filter((line) => !line.startsWith("--"))
    .map((line) => line.trim())
    .join(" ");
  return Object.entries(recorded).map(([script, name]) => ({
    script,
    operands: [],
    lua: lua.replaceAll("SCRIPT", name),
  }));
};

/**
 * Whether the scripts record what they write. A history is worth nothing where the server loses a part of it. In a slot
 * that moves, the recorder's key, which the scripts do not declare, would fail them.
 */
export const isRecorded = (setting: Setting): boolean => !["lost", "shifted", "resharded"].includes(setting);

/** The module that workers import as the semaphore: the built one with a recorder, and with the fault of a control. */
export const moduleOf = (setting: Setting, control?: SemaphoreControl): string => {
  if (!control && setting === "resharded") return "@kit/semaphore";
  if (control && !control.mutations) return wrappedBy("semaphore", "wrapped-semaphore.mjs", control.name);
  const mutations = [...recorders(), ...(control?.mutations ?? [])];
  return builtWith(`semaphore-${control?.name ?? "recorded"}`, "@kit/semaphore", "index.js", ...mutations);
};
