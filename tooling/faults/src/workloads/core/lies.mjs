import { isReplyError, pause } from "@kit/core/toolkit";
import { made } from "../../lab/lies.mjs";

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

const aReader =
  (lie) =>
  ({ createConfig }) => ({ createConfig: made(createConfig, lie) });

export const lies = {
  "durable-trusts-anybody": () => ({ durable: askAnybody }),
  "short-is-safe": ({ durable }) => ({
    durable: async (...call) => {
      const answer = await durable(...call);
      return answer.outcome === "short" ? { ...answer, outcome: "safe" } : answer;
    },
  }),
  /** A missing entry is taken for an empty one. */
  "emptiness-is-truth": aReader((config) => ({
    get current() {
      return config.state === "degraded" ? { id: "" } : config.current;
    },
  })),
  /** The reader keeps the value that it had when its link was lost. */
  "never-reads-again": aReader((config) => {
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
  }),
};
