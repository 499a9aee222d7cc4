import { made } from "../../lab/lies.mjs";

const lookups =
  (lie) =>
  ({ createGeoIp }) => ({ createGeoIp: made(createGeoIp, (reader) => ({ lookup: lie(reader) })) });
const gap = { place: null, none: "gap" };

export const lies = {
  /** Returns the place of one version with the name of the one before. */
  "names-another-version": lookups((reader) => {
    let before;
    return async (address) => {
      const found = await reader.lookup(address);
      const shown = before === undefined || !found.version ? found : { ...found, version: before };
      before = found.version;
      return shown;
    };
  }),
  "silence-is-a-gap": lookups((reader) => (address) => reader.lookup(address).catch(() => gap)),
};
