import type { Connection } from "@kit/core";
import { counted, type Facts, type Inspector, secondsText } from "@kit/core/toolkit";
import { type ChannelStatus, createLogJob, createShipper, type JobFile } from "../index.js";
import { logshipKeys } from "../keys.js";
import { bytesText } from "./progress.js";

/** Printed by `kit inspect logship NAME --json`. A name may belong to a job, a channel, or both. */
interface LogshipReport {
  readonly name: string;
  /** Null if there is no such channel. */
  readonly channel: ChannelStatus | null;
  /** The files of the job; null if there is no such job. */
  readonly job: readonly JobFile[] | null;
}

const reportOf = async (redis: Connection, prefix: string, name: string): Promise<LogshipReport> => {
  const shipper = createShipper(redis, name, { prefix, isolate: false });
  const job = createLogJob(redis, name, { prefix, isolate: false, directory: "." });
  try {
    const [channel, files] = await Promise.all([shipper.status(), job.files()]);
    return { name, channel, job: files.length === 0 ? null : files };
  } finally {
    await Promise.all([shipper.close(), job.close()]);
  }
};

const channelFacts = (channel: ChannelStatus): Facts => {
  const { usedBytes, reservedBytes, limitBytes, isClosed, fileCount, shippers, consumers, at } = channel;
  const limit = limitBytes === 0 ? "no limit set" : `of ${bytesText(limitBytes)}`;
  return [
    ["channel", isClosed ? "closed" : "open"],
    ["used", `${bytesText(usedBytes)} and ${bytesText(reservedBytes)} reserved, ${limit}`],
    ["files", String(fileCount)],
    ["shippers", `${String(shippers)} active`],
    ...consumers.map(({ name, seenAt }) => {
      const sign = seenAt === 0 ? "never seen" : `last seen ${secondsText(at - seenAt)} ago`;
      return ["consumer", `${name}, ${sign}`] as const;
    }),
    ...(consumers.length === 0 ? [["consumer", "none: no data is freed"] as const] : []),
  ];
};

const jobFacts = (files: readonly JobFile[]): Facts => [
  ["job", `${String(files.filter(({ isDone }) => isDone).length)} of ${counted(files.length, "file")} done`],
  ["lines", String(files.reduce((sum, { lines }) => sum + lines, 0))],
];

const summaryOf = ({ channel, job }: LogshipReport): string =>
  [
    ...(channel ? [`${channel.isClosed ? "closed" : "open"}, ${bytesText(channel.usedBytes)} used`] : []),
    ...(job ? [`job: ${jobFacts(job)[0]![1]}`] : []),
  ].join("; ");

export const logshipInspector: Inspector = {
  thing: "logship",
  about: "a log channel or job: usage, files, consumers and progress",
  look: async ({ redis, prefix }, name: string) => {
    const data = await reportOf(redis, prefix, name);
    const { channel, job } = data;
    const ofChannel = (channel?.files ?? []).map(
      ({ name: file, isSealed, textBytes, positions, quarantined, fault }) => [
        file,
        fault === undefined ? (isSealed ? "complete" : "shipping") : `interrupted: ${fault}`,
        bytesText(textBytes),
        Object.entries(positions)
          .map(([consumer, offset]) => {
            const cause = quarantined[consumer];
            return `${consumer} ${bytesText(offset)}${cause === undefined ? "" : `, quarantined: ${cause}`}`;
          })
          .join("; "),
      ],
    );
    const ofJob = (job ?? []).map(({ name: file, isDone, offset, lines }) => [
      file,
      isDone ? "done" : "in progress",
      bytesText(offset),
      counted(lines, "line"),
    ]);
    const rows = [...ofChannel, ...ofJob];
    const isUnknown = channel === null && job === null;
    return {
      data,
      facts: [
        ["name", name],
        ...(channel === null ? [] : channelFacts(channel)),
        ...(job === null ? [] : jobFacts(job)),
        ...(isUnknown ? [["state", "unknown: no job or channel has this name"] as const] : []),
      ],
      summary: summaryOf(data),
      isUnknown,
      table: rows.length === 0 ? undefined : { columns: ["file", "state", "size", "done"], rows },
    };
  },
  listed: { things: "channels", keys: ["{NAME}:channel", "{NAME}:job"], columns: ["channel", "used", "job", "lines"] },
  keys: (prefix, name: string) => {
    const {
      chunk: _chunk,
      result: _result,
      sending: _sending,
      pending: _pending,
      events: _events,
      ...keys
    } = logshipKeys(prefix, name);
    return Object.values(keys);
  },
};
