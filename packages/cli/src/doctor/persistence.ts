import type { Finding } from "@kit/core/toolkit";
import { Refused } from "../node.js";
import { type Check, ok, onEachNode, problem, warning } from "./check.js";

export const persistence: Check = {
  id: "persistence",
  look: (server) =>
    onEachNode(server, async (node) => {
      const info = await node.info();
      const settings = await node
        .config("save", "stop-writes-on-bgsave-error", "appendfsync")
        .catch((error: unknown) => {
          if (error instanceof Refused) return undefined;
          throw error;
        });
      const found: Finding[] = [];
      const isAppending = info.get("aof_enabled") === "1";
      const save = settings?.get("save");
      if (info.get("rdb_last_bgsave_status") === "err")
        found.push(
          problem(
            `the last snapshot failed${settings?.get("stop-writes-on-bgsave-error") === "yes" ? "; the server refuses writes until one works" : ""}`,
            "Read the server's log: the disk is full, the folder is not writable, or fork() found no memory.",
          ),
        );
      if (isAppending && info.get("aof_last_write_status") === "err")
        found.push(
          problem("the append-only file cannot be written", "Free space on the disk of `dir`; read the server's log."),
        );
      if (isAppending && info.get("aof_last_bgrewrite_status") === "err")
        found.push(
          problem(
            "the last rewrite of the append-only file failed, so it grows without end",
            "Read the server's log: the disk is full, or fork() found no memory.",
          ),
        );
      if (save !== undefined && save !== "" && settings?.get("stop-writes-on-bgsave-error") === "no")
        found.push(
          warning(
            "stop-writes-on-bgsave-error is off: when snapshots fail nobody notices",
            "CONFIG SET stop-writes-on-bgsave-error yes, or watch rdb_last_bgsave_status.",
          ),
        );
      if (!isAppending && save === "")
        found.push(
          warning(
            "neither snapshots nor an append-only file: a restart loses everything",
            "CONFIG SET appendonly yes, and the same line in redis.conf, unless all of this data may go.",
          ),
        );
      if (found.length > 0) return found;
      const modes = [
        ...(isAppending ? [`append-only file, fsync ${settings?.get("appendfsync") ?? "not known"}`] : []),
        ...(save ? [`snapshots (${save})`] : []),
      ];
      return [
        ok(modes.length > 0 ? modes.join(", ") : "no append-only file; whether snapshots are made may not be read"),
      ];
    }),
};
