import { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { canary, type Conformance, conforming } from "@tooling/vitest/conformance";
import {
  createLogJob,
  createReceiver,
  createShipper,
  type LogJob,
  type Receiver,
  type ReceiveOptions,
  type RunOptions,
  type Shipper,
  type ShipOptions,
} from "../src/index.js";
import {
  filesRules,
  followRules,
  jobRules,
  receiveRules,
  receiverRules,
  runRules,
  sendRules,
  shipDirectoryRules,
  shipperRules,
  shipRules,
} from "../src/options.js";
import { forwardRules } from "../src/process/processor.js";
import { countWords, name } from "./harness.js";

type Client = Parameters<typeof createShipper>[0];

const directory = fileURLToPath(new URL("programs", import.meta.url));
const file = fileURLToPath(new URL("../package.json", import.meta.url));
const match = ["*.log", 1, null];
const order = ["nonsense", 1, null];
const sink = { apply: (): Promise<void> => Promise.resolve() };

/** The channel of each receiver, so that a file can be shipped into it. */
const channels = new WeakMap<Receiver, () => Shipper>();
const shipped = async (receiver: Receiver): Promise<void> => {
  const shipper = channels.get(receiver)!();
  await shipper.send("a", Readable.from([`${canary}\n`]));
  await shipper.close();
};
const sent = async (shipper: Shipper): Promise<void> =>
  void (await shipper.send("a", Readable.from([`${canary}\n`]), { id: "first" }));
const ran = async (job: LogJob): Promise<void> => void (await job.run(countWords));

/** Shippers, receivers and jobs, for the conformance suites. */
export const conformance: Conformance = {
  name: "logship",
  permanentKeys: ["*"],
  objects: [
    conforming<Shipper>({
      what: "a shipper",
      make: (client, options) => createShipper(client, name, { isolate: false, ...options }),
      named: (client, named) => createShipper(client, named),
      options: shipperRules,
      refused: { consumers: ["c", null] },
      uses: sent,
      calls: {
        add: {
          options: shipRules,
          run: (shipper, options: ShipOptions) => shipper.add(file, options),
          trace: ["kit:logship.ship", { channel: name, file: "package.json" }],
        },
        addDirectory: {
          options: shipDirectoryRules,
          refused: { match, order },
          run: (shipper, options) => shipper.addDirectory(directory, options),
        },
        send: {
          options: sendRules,
          run: (shipper, options) => shipper.send("a", Readable.from([`${canary}\n`]), options),
          trace: ["kit:logship.ship", { channel: name, file: "a" }],
        },
        follow: {
          options: followRules,
          refused: { rotated: match },
          run: (shipper, options) => shipper.follow(file, options),
          waits: true,
          persists: true,
        },
        setLimit: { prepare: sent, run: (shipper) => shipper.setLimit(10_000) },
        closeChannel: { prepare: sent, run: (shipper) => shipper.closeChannel() },
        deleteChannel: { prepare: sent, run: (shipper) => shipper.deleteChannel() },
        removeConsumer: { prepare: sent, run: (shipper) => shipper.removeConsumer("c") },
        endAbandoned: { prepare: sent, run: (shipper) => shipper.endAbandoned(0) },
        status: { prepare: sent, run: (shipper) => shipper.status() },
        metrics: { prepare: sent, run: (shipper) => shipper.metrics() },
      },
      others: ["writable", "webWritable"],
    }),
    conforming<Receiver>({
      what: "a receiver",
      make: (client: Client, options) => {
        const receiver = createReceiver(client, name, { isolate: false, consumer: "c", ...options });
        const { prefix } = options as { readonly prefix?: string };
        channels.set(receiver, () => createShipper(client, name, { isolate: false, prefix }));
        return receiver;
      },
      named: (client, named) => createReceiver(client, named, { consumer: "c" }),
      options: receiverRules,
      uses: async (receiver) => {
        await shipped(receiver);
        await receiver.run(countWords, { until: "empty" });
      },
      wakes: {
        run: async (receiver, settle) => {
          const controller = new AbortController();
          const got: string[] = [];
          const running = receiver
            .run(
              (lines) => {
                got.push(...lines);
                controller.abort();
              },
              { signal: controller.signal },
            )
            .catch(() => undefined);
          await settle();
          await shipped(receiver);
          await running;
          return got;
        },
      },
      calls: {
        run: {
          options: receiveRules,
          required: { until: "empty" },
          prepare: shipped,
          run: (receiver, options: ReceiveOptions) => receiver.run(countWords, options),
          trace: ["kit:logship.receive", { channel: name }],
          persists: true,
        },
        "run, waiting": {
          options: { signal: receiveRules.signal },
          prepare: shipped,
          run: (receiver, options: ReceiveOptions) => receiver.run(countWords, options),
          waits: true,
          persists: true,
        },
        files: {
          options: filesRules,
          required: { until: "empty" },
          prepare: shipped,
          run: async (receiver, options) => {
            let bytes = 0;
            for await (const one of receiver.files(options)) for await (const part of one.bytes()) bytes += part.length;
            return bytes;
          },
          persists: true,
        },
        status: { prepare: shipped, run: (receiver) => receiver.status() },
        metrics: { prepare: shipped, run: (receiver) => receiver.metrics() },
        redo: { prepare: shipped, run: (receiver) => receiver.redo(), trace: ["kit:logship.redo", { channel: name }] },
        results: { prepare: shipped, run: (receiver) => receiver.results("words") },
        forward: {
          options: forwardRules,
          prepare: shipped,
          run: (receiver, options) => receiver.forward("words", sink, options),
          isFinished: true,
        },
      },
      others: ["resultKey"],
    }),
    conforming<LogJob>({
      what: "a job",
      make: (client, options) => createLogJob(client, name, { directory, isolate: false, ...options }),
      named: (client, named) => createLogJob(client, named, { directory }),
      options: jobRules,
      refused: { match, order },
      uses: (job) => job.run(countWords),
      calls: {
        run: {
          options: runRules,
          run: (job, options: RunOptions) => job.run(countWords, options),
          trace: ["kit:logship.run", { job: name }],
        },
        files: { prepare: ran, run: (job) => job.files() },
        results: { prepare: ran, run: (job) => job.results("words") },
        forward: {
          options: forwardRules,
          prepare: ran,
          run: (job, options) => job.forward("words", sink, options),
          isFinished: true,
          trace: ["kit:logship.forward", { of: name }],
        },
        delete: { prepare: ran, run: (job) => job.delete() },
      },
      others: ["resultKey"],
    }),
  ],
};
