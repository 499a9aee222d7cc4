export { createLogJob } from "./job/job.js";
export { createReceiver } from "./receive/receiver.js";
export { createShipper } from "./ship/shipper.js";
export { dailyCountry } from "./process/daily-country.js";
export { readGzip } from "./bytes/gzip.js";
export { readLines } from "./bytes/lines.js";
export { BadDataError, LineError, LogshipError } from "./errors.js";

export type { DailyCountryOptions, Locator, Visit } from "./process/daily-country.js";
export type { LogshipErrorCode } from "./errors.js";
export type { FileOrder, LocalFile, SkippedLink } from "./bytes/files.js";
export type { GzipOptions } from "./bytes/gzip.js";
export type { JobEvents, JobFile, LogJob } from "./job/job.js";
export type { LineBatch, LineOptions } from "./bytes/lines.js";
export type {
  BadDataPolicy,
  ConnectionOptions,
  DirectoryOptions,
  FilesOptions,
  FollowOptions,
  JobOptions,
  ReceiveOptions,
  ReceiverOptions,
  RunOptions,
  ShipDirectoryOptions,
  ShipOptions,
  ShipperOptions,
} from "./options.js";
export type { ReceivedFile } from "./receive/received.js";
export type { Receiver, ReceiverEvents } from "./receive/receiver.js";
export type { Results } from "./process/results.js";
export type { CounterDelta, CounterOrigin, CounterSink } from "./process/processor.js";
export type { FlushOptions, LinesContext, LinesHandler, Padding, RunSummary } from "./process/runner.js";
export type { ChannelStatus, Codec, ConsumerStatus, FileStatus } from "./scripts/index.js";
export type { Shipper, ShipperEvents, SkippedFile } from "./ship/shipper.js";
export type { ByteSource } from "./ship/source.js";
export type { ShippedFile, ShipProgress } from "./ship/transfer.js";
export type { CloseOptions } from "@kit/core/toolkit";
