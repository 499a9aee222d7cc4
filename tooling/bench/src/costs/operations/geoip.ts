import { createGeoIp, type GeoIp, importGeoIp } from "@kit/geoip";
import { seededBelow } from "@tooling/lab";
import { addressText, networksOf } from "../../suites/geoip/data.js";
import type { CostedOperation, IdleObject, StoredObject } from "../operation.js";
import { manyCallers, oneByOne } from "../operation.js";
import type { Scene } from "../scene.js";

const database = "city";
const rows = 20_000;

const load = async (scene: Scene, count: number): Promise<void> => {
  const ranges = [...networksOf(count)].map(({ first, bits, place }) => ({
    network: `${addressText(first)}/${String(bits)}`,
    place: { country: "XA", cityName: `City ${String(place % 5_000)}` },
  }));
  await importGeoIp(await scene.client(), database, ranges);
};

const readerOn = async (scene: Scene, cachePages?: number): Promise<GeoIp> => {
  if (scene.index === 0) await load(scene, rows);
  return scene.own(createGeoIp(await scene.client(), database, { cachePages }));
};

const addresses = (): ((index: number) => string) => {
  const networks = [...networksOf(rows)];
  const random = seededBelow(3);
  const all = Array.from({ length: 2_000 }, () => addressText(networks[random(rows)]!.first + 1));
  return (index) => all[index % all.length]!;
};

export const operations: readonly CostedOperation[] = [
  {
    package: "geoip",
    name: "look-up, cached",
    about: "page and place seen before",
    count: 1_000,
    callers: manyCallers,
    open: async (scene) => {
      const geo = await readerOn(scene);
      await geo.lookup(addressText([...networksOf(1)][0]!.first));
      return { run: oneByOne(() => geo.lookup(addressText([...networksOf(1)][0]!.first))) };
    },
  },
  {
    package: "geoip",
    name: "look-up, not cached",
    about: "addresses in different pages",
    count: 1_000,
    callers: manyCallers,
    open: async (scene) => {
      const geo = await readerOn(scene, 1);
      const address = addresses();
      return { run: oneByOne((index) => geo.lookup(address(index * manyCallers + scene.index))) };
    },
  },
];

export const stored: readonly StoredObject[] = [
  {
    package: "geoip",
    name: "a range",
    about: "with its place; an import holds two versions",
    count: rows,
    store: load,
  },
];

export const idle: readonly IdleObject[] = [
  {
    package: "geoip",
    name: "a reader without lookups",
    about: "",
    open: async (scene) => {
      const geo = await readerOn(scene);
      await geo.lookup(addresses()(0));
    },
  },
];
