// Controls: the APIs of core with one lie. The query of the import's URL names the lie.
import { isReplyError, pause } from "@kit/core/toolkit";
import { createConfig as createTrueConfig } from "@kit/core/config";
import { durable as trueDurable } from "@kit/core/durable";
import { lying } from "../../lab/lies.mjs";

export { createComponent, withComponent } from "@kit/core/config";

const lie = new URL(import.meta.url).search.slice(1);

// ── durable ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Confirms on a connection that reconnects by itself, though a new master may never have received the write. */
const askAnybody = async (client, { replicas, timeoutMs, deadlineMs }, write) => {
  const until = performance.now() + deadlineMs;
  const value = await write({ call: (command, ...args) => client.call(command, ...args) });
  for (;;)
    try {
      const found = Number(await client.call("WAIT", replicas, timeoutMs));
      const outcome = found >= replicas ? "safe" : "short";
      return { value, outcome, replicas: found, fsync: { local: false, replicas: 0 }, why: undefined };
    } catch (error) {
      if (isReplyError(error) || performance.now() > until) throw error;
      await pause(50);
    }
};

const callItSafe = async (client, options, write) => {
  const answer = await trueDurable(client, options, write);
  return answer.outcome === "short" ? { ...answer, outcome: "safe" } : answer;
};

export const durable = { "durable-trusts-anybody": askAnybody, "short-is-safe": callItSafe }[lie] ?? trueDurable;

// ── readers ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Lies about a reader, by name. */
const lies = {
  /** A missing entry is taken for an empty one. */
  "emptiness-is-truth": (config) => ({
    get current() {
      return config.state === "degraded" ? { id: "" } : config.current;
    },
  }),
  /** The reader keeps the value that it had when its link was lost. */
  "never-reads-again": (config) => {
    let frozen;
    const freeze = (state) => {
      if (state === "stale" && config.version) frozen ??= { current: config.current, version: config.version };
    };
    config.on("state", freeze);
    return {
      get current() {
        return frozen ? frozen.current : config.current;
      },
      get version() {
        return frozen ? frozen.version : config.version;
      },
    };
  },
};

export const createConfig = (...args) => {
  const config = createTrueConfig(...args);
  return lies[lie] ? lying(config, lies[lie](config)) : config;
};
