export { dailyCountry } from "./daily-country.js";
export { BadDataError, LineError, LogshipError } from "./errors.js";
export { readGzip } from "./gzip.js";
export { createLogJob } from "./job.js";
export { readLines } from "./lines.js";
export { createReceiver } from "./receiver.js";
export { createShipper } from "./shipper.js";

export type { DailyCountryOptions, Locator, Visit } from "./daily-country.js";
export type { LogshipErrorCode } from "./errors.js";
export type { FileOrder, LocalFile, SkippedLink } from "./files.js";
export type { GzipOptions } from "./gzip.js";
export type { HubOptions } from "./hub.js";
export type { JobEvents, JobFile, LogJob, RunSummary } from "./job.js";
export type { LineBatch, LineOptions } from "./lines.js";
export type {
  BadDataPolicy,
  DirectoryOptions,
  JobOptions,
  ReceiverOptions,
  RunOptions,
  ShipperOptions,
} from "./options.js";
export type { ReceivedFile } from "./received.js";
export type { FilesOptions, Receiver, ReceiveOptions, ReceiverEvents } from "./receiver.js";
export type { Results } from "./results.js";
export type { CounterDelta, CounterOrigin, CounterSink } from "./processor.js";
export type { FlushOptions, LinesContext, LinesHandler, Padding } from "./runner.js";
export type { ChannelStatus, Codec, ConsumerStatus, FileStatus } from "./scripts/index.js";
export type {
  ByteSource,
  FollowOptions,
  ShipDirectoryOptions,
  ShipOptions,
  ShippedFile,
  Shipper,
  ShipperEvents,
  ShipProgress,
} from "./shipper.js";
export type { CloseOptions } from "@kit/core/toolkit";
