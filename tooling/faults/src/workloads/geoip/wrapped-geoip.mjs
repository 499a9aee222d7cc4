// Controls: the API of a database with one lie. The query of the import's URL names the lie.
import { createGeoIp as createTrueGeoIp } from "@kit/geoip";
import { lying } from "../../lab/lies.mjs";

export { importGeoIp, rollbackGeoIp } from "@kit/geoip";

const lie = new URL(import.meta.url).search.slice(1);
const gap = { place: null, none: "gap" };

const lies = {
  /** Returns the place of one version with the name of the one before. */
  "names-another-version": (reader) => {
    let before;
    return async (address) => {
      const found = await reader.lookup(address);
      const shown = before === undefined || !found.version ? found : { ...found, version: before };
      before = found.version;
      return shown;
    };
  },
  "silence-is-a-gap": (reader) => (address) => reader.lookup(address).catch(() => gap),
};

export const createGeoIp = (...args) => {
  const reader = createTrueGeoIp(...args);
  return lying(reader, { lookup: lies[lie](reader) });
};
