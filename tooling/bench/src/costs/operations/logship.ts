import { Readable } from "node:stream";
import { createReceiver, createShipper, type Shipper } from "@kit/logship";
import { logBlocks } from "../../suites/logship/log-text.js";
import type { CostedOperation, IdleObject, StoredObject } from "../operation.js";
import type { Scene } from "../scene.js";

const mebibyte = 2 ** 20;
const limitBytes = 2 ** 30;
const channel = "web";

const shipperOn = async (scene: Scene): Promise<Shipper> =>
  scene.own(createShipper(await scene.client(), channel, { limitBytes, consumers: ["stats"] }));

let files = 0;
const ship = (shipper: Shipper, mebibytes: number): Promise<unknown> =>
  shipper.send(`access-${String(++files)}.log`, Readable.from(logBlocks(mebibytes * mebibyte)));

export const operations: readonly CostedOperation[] = [
  {
    package: "logship",
    name: "upload of 1 MiB",
    about: "lines that compress to a fifth",
    count: 32,
    open: async (scene) => {
      const shipper = await shipperOn(scene);
      return { run: (count) => ship(shipper, count) };
    },
  },
  {
    package: "logship",
    name: "receipt of 1 MiB",
    about: "one consumer, one commit",
    count: 32,
    open: async (scene) => {
      const shipper = await shipperOn(scene);
      const receiver = scene.own(createReceiver(await scene.client(), channel, { consumer: "stats" }));
      return {
        prepare: (count) => ship(shipper, count),
        run: async () => {
          for await (const file of receiver.files({ until: "empty" })) {
            for await (const { lines } of file.batches()) void lines;
            await file.commit();
          }
        },
      };
    },
  },
];

export const stored: readonly StoredObject[] = [
  {
    package: "logship",
    name: "1 MiB of lines",
    about: "until all consumers have it",
    count: 32,
    store: async (scene, count) => ship(await shipperOn(scene), count),
  },
];

export const idle: readonly IdleObject[] = [
  {
    package: "logship",
    name: "a receiver that waits for files",
    about: "",
    open: async (scene) => {
      const receiver = scene.own(createReceiver(await scene.client(), "no files", { consumer: "stats" }));
      void receiver.run(() => undefined).catch(() => undefined);
    },
  },
];
