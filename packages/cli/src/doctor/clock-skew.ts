import type { Finding } from "@kit/core/toolkit";
import { type Check, ok, onEachNode, warning } from "./check.js";

/** No kit package compares clocks: this is for people, logs and other programs. */
const tolerableMs = 1_000;

export const clockSkew: Check = {
  id: "clock-skew",
  look: (server) =>
    onEachNode(server, async (node): Promise<readonly Finding[]> => {
      // oxlint-disable-next-line no-restricted-properties -- the check is about the wall clock itself
      const sentAt = Date.now();
      const [seconds, micros] = (await node.call("TIME")) as [string, string];
      // oxlint-disable-next-line no-restricted-properties
      const receivedAt = Date.now();
      const serverAt = Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
      // The server read its clock between the two instants, so the skew is a lower bound.
      const skewMs = serverAt < sentAt ? serverAt - sentAt : Math.max(0, serverAt - receivedAt);
      if (Math.abs(skewMs) <= tolerableMs) return [ok("the clocks of the server and this machine agree")];
      const by = `${(Math.abs(skewMs) / 1_000).toFixed(1)} s`;
      return [
        warning(
          `the server's clock is at least ${by} ${skewMs > 0 ? "ahead of" : "behind"} this machine's`,
          "Synchronize both clocks with NTP or chrony. Leases are not affected, but timestamps and certificates are.",
        ),
      ];
    }),
};
