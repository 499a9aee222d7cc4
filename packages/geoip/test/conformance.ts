import { type Conformance, conforming } from "@tooling/vitest/conformance";
import {
  createGeoIp,
  type GeoIp,
  type GeoIpOptions,
  geoLite2,
  importGeoIp,
  type ImportOptions,
  rollbackGeoIp,
} from "../src/index.js";
import { geoIpRules, importRules, rollbackRules } from "../src/options.js";
import { cityFiles } from "./data.js";

type Client = Parameters<typeof createGeoIp>[0];

interface Place {
  readonly client: Client;
  readonly options: object;
}

/** Where each reader reads, so that what it reads can be imported. */
const places = new WeakMap<GeoIp, Place>();
const imported = async (reader: GeoIp): Promise<void> => {
  const { client, options } = places.get(reader)!;
  const { prefix } = options as GeoIpOptions;
  await importGeoIp(client, "city", geoLite2(cityFiles()), { prefix });
};

/** The given object, in its place; a value that is no object is left unchanged. */
const within = <Options extends object>({ options }: Place, given: Options): Options =>
  Object.getPrototypeOf(given ?? 0) === Object.prototype ? { ...options, ...given } : given;
const load = ({ client, options }: Place): Promise<unknown> =>
  importGeoIp(client, "city", geoLite2(cityFiles()), options);

/** Readers and imports, for the conformance suites. */
export const conformance: Conformance = {
  name: "geoip",
  permanentKeys: ["geoip:*"],
  objects: [
    conforming<GeoIp>({
      what: "a reader",
      make: (client, options) => {
        const reader = createGeoIp(client, "city", options);
        places.set(reader, { client, options });
        return reader;
      },
      named: (client, named) => createGeoIp(client, named),
      options: geoIpRules,
      refused: { locales: ["en", [1], [""], null] },
      uses: async (reader) => {
        await imported(reader);
        await reader.info();
      },
      calls: {
        lookup: {
          trace: ["kit:geoip.lookup", { database: "city" }],
          prepare: imported,
          run: (reader) => reader.lookup("1.0.0.1"),
        },
        ready: {
          trace: ["kit:geoip.ready", { database: "city" }],
          prepare: imported,
          run: (reader) => reader.ready(),
        },
        lookupSync: {
          prepare: imported,
          run: (reader) => {
            try {
              return reader.lookupSync("1.0.0.1");
            } catch (error) {
              // It keeps nothing in this mode.
              if ((error as { code: string }).code === "KIT_GEOIP_NOT_LOADED") return undefined;
              throw error;
            }
          },
          isLocal: true,
        },
        info: {
          trace: ["kit:geoip.info", { database: "city" }],
          prepare: imported,
          run: (reader) => reader.info(),
        },
      },
    }),
    conforming<Place>({
      what: "an import",
      make: (client, options) => ({ client, options }),
      options: {},
      hasNoClose: true,
      calls: {
        import: {
          trace: ["kit:geoip.import", { database: "city" }],
          options: importRules,
          refused: { onProgress: [1, null] },
          isFinished: true,
          run: (place, options: ImportOptions) =>
            importGeoIp(place.client, "city", geoLite2(cityFiles()), within(place, options)),
        },
        rollback: {
          trace: ["kit:geoip.rollback", { database: "city" }],
          options: rollbackRules,
          prepare: async (place) => {
            await load(place);
            await load(place);
          },
          run: (place, options) => rollbackGeoIp(place.client, "city", within(place, options)),
        },
      },
    }),
  ],
};
