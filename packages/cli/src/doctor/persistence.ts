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
            `the last snapshot failed${settings?.get("stop-writes-on-bgsave-error") === "yes" ? "; the server rejects writes until a snapshot succeeds" : ""}`,
            "Read the server's log. Usual causes: a full disk, a folder that is not writable, or no memory for fork().",
          ),
        );
      if (isAppending && info.get("aof_last_write_status") === "err")
        found.push(
          problem(
            "the server cannot write the append-only file",
            "Free disk space in the server's `dir`, and read its log.",
          ),
        );
      if (isAppending && info.get("aof_last_bgrewrite_status") === "err")
        found.push(
          problem(
            "the last rewrite of the append-only file failed: the file keeps growing",
            "Read the server's log. Usual causes: a full disk, or no memory for fork().",
          ),
        );
      if (save !== undefined && save !== "" && settings?.get("stop-writes-on-bgsave-error") === "no")
        found.push(
          warning(
            "stop-writes-on-bgsave-error is off: failed snapshots go unnoticed",
            "Run CONFIG SET stop-writes-on-bgsave-error yes, or monitor rdb_last_bgsave_status.",
          ),
        );
      if (!isAppending && save === "")
        found.push(
          warning(
            "no snapshots and no append-only file: a restart loses all data",
            "Run CONFIG SET appendonly yes, and set it in redis.conf. Skip this if you can lose all data.",
          ),
        );
      if (found.length > 0) return found;
      const modes = [
        ...(isAppending ? [`append-only file, fsync ${settings?.get("appendfsync") ?? "unknown"}`] : []),
        ...(save ? [`snapshots (${save})`] : []),
      ];
      return [
        ok(modes.length > 0 ? modes.join(", ") : "no append-only file; this user cannot read the snapshot settings"),
      ];
    }),
};
