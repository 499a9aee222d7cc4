import { type Connection, connect } from "@kit/core";
import { createGeoIp, importGeoIp } from "@kit/geoip";
import { Lab, prefix } from "../../lab/lab.js";
import type { PlainRun } from "../../plain.js";
import type { CommonRecord } from "../../records.js";

const options = { prefix, deadlineMs: 10_000 };

/** A server, workers that import, roll back and look up, and the injections. */
export class GeoIpLab extends Lab<CommonRecord> {
  async end(): Promise<PlainRun> {
    const facts = await this.facts();
    await using client = await connect({ url: this.ownUrl, deadlineMs: 10_000 });
    return { ...facts, wrong: { G2: await this.#unanswered(client), G4: await this.#orphans(client) } };
  }

  /** Checks that the version that serves in the end finds all of its ranges. */
  async #unanswered(client: Connection): Promise<string[]> {
    await using reader = createGeoIp(client, "city", { ...options, mode: "local" });
    try {
      await reader.ready();
    } catch (error) {
      return [`the version that serves in the end: ${String(error)}`];
    }
    const found = new Set<number | undefined>();
    for (let at = 0; at < 1_200; at++)
      found.add(reader.lookupSync(`11.0.${String(at >> 4)}.${String((at & 15) << 4)}`).place?.asn);
    return found.size === 1 && !found.has(undefined) ? [] : [`in the end there are ${[...found].join()}`];
  }

  /** Imports once more, which finishes the work of killed importers. After that only the serving version may stay. */
  async #orphans(client: Connection): Promise<string[]> {
    const { version } = await importGeoIp(client, "city", [{ network: "11.0.0.0/24", place: { asn: 1 } }], options);
    return [...(await this.lives())].flatMap(([key, ms]) => {
      const mayStay = key.endsWith("{city}:current") || key.includes(version);
      // -2: the key has expired since it was listed.
      return ms === -2 || mayStay === (ms === -1) ? [] : [`${key} has ${String(ms)} ms left`];
    });
  }
}
