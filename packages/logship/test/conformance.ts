import { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import {
  canary,
  choice,
  clientRules,
  type Conformance,
  conforming,
  integer,
  type OptionRules,
  refusing,
  signal,
  text,
} from "@tooling/vitest/conformance";
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
import { countWords, name } from "./harness.js";

type Client = Parameters<typeof createShipper>[0];

const directory = fileURLToPath(new URL("programs", import.meta.url));
const file = fileURLToPath(new URL("../package.json", import.meta.url));
const concurrency = integer(1, 1_000);
const lineRules: OptionRules = {
  maxLineBytes: integer(16, 268_435_456),
  onLongLine: choice("error", "split", "truncate", "skip"),
  onInvalidText: choice("replace", "error", "skip"),
  flushLines: integer(1),
  flushBytes: integer(1),
  flushMs: integer(1, 3_600_000),
};
const match = refusing("*.log", 1, null);
const order = choice("natural", "mtime");
const dereference = refusing("yes", 1, null);
const onBadData = choice("error", "skip");
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
      options: {
        ...clientRules,
        limitBytes: integer(4_096),
        codec: choice("gzip", "none"),
        gzipLevel: integer(1, 9),
        chunkBytes: integer(1_024, 8_388_608),
        maxInFlight: integer(1, 256),
        leaseMs: integer(100, 3_600_000),
        flushMs: integer(1, 3_600_000),
        consumers: refusing("c", null),
        dropSilentMs: integer(20_000, 31_536_000_000),
      },
      uses: sent,
      calls: {
        add: {
          options: { name: text(4_096), id: text(1_024), signal },
          run: (shipper, options: ShipOptions) => shipper.add(file, options),
          trace: ["kit:logship.ship", { channel: name, file: "package.json" }],
        },
        addDirectory: {
          options: { match, order, dereference, signal },
          run: (shipper, options) => shipper.addDirectory(directory, options),
        },
        send: {
          options: { id: text(1_024), signal },
          run: (shipper, options) => shipper.send("a", Readable.from([`${canary}\n`]), options),
          trace: ["kit:logship.ship", { channel: name, file: "a" }],
        },
        follow: {
          options: { rotated: match, quietMs: integer(0, 3_600_000), dereference, signal },
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
      options: {
        ...clientRules,
        ...lineRules,
        consumer: text(200),
        from: choice("start", "oldest", "now"),
        prefetchBytes: integer(1),
        onBadData,
      },
      required: ["consumer"],
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
          options: { signal, concurrency, until: choice("closed", "empty") },
          required: { until: "empty" },
          prepare: shipped,
          run: (receiver, options: ReceiveOptions) => receiver.run(countWords, options),
          trace: ["kit:logship.receive", { channel: name }],
          persists: true,
        },
        "run, waiting": {
          options: { signal },
          prepare: shipped,
          run: (receiver, options: ReceiveOptions) => receiver.run(countWords, options),
          waits: true,
          persists: true,
        },
        files: {
          options: { signal, until: choice("closed", "empty") },
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
          options: { signal },
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
      options: {
        ...clientRules,
        ...lineRules,
        directory: text(4_096),
        match,
        dereference,
        order,
        leaseMs: integer(100, 86_400_000),
        lastLine: choice("take", "leave"),
        onBadData,
      },
      required: ["directory"],
      uses: (job) => job.run(countWords),
      calls: {
        run: {
          options: { signal, concurrency },
          run: (job, options: RunOptions) => job.run(countWords, options),
          trace: ["kit:logship.run", { job: name }],
        },
        files: { prepare: ran, run: (job) => job.files() },
        results: { prepare: ran, run: (job) => job.results("words") },
        forward: {
          options: { signal },
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
