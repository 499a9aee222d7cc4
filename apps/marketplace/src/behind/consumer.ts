// A consumer of the access log: counts visits by country and day, or responses by status.
import { connect } from "@kit/core";
import { createGeoIp } from "@kit/geoip";
import { createReceiver, dailyCountry, type LinesHandler } from "@kit/logship";
import { setTimeout as sleep } from "node:timers/promises";
import type { Place } from "../common/place.js";
import { geoDatabase, logChannel, type logConsumers } from "../common/tools.js";
import { serveMember, startLimitMs } from "./member.js";

export interface ConsumerTask extends Place {
  readonly consumer: (typeof logConsumers)[number];
}

export interface ConsumerStatus {
  readonly lines: number;
  readonly file: string | null;
}

serveMember(async ({ url, prefix, consumer }: ConsumerTask, report) => {
  const redis = await connect({ url, connectionName: `bazaar ${consumer}`, deadlineMs: startLimitMs });
  const geo = createGeoIp(redis, geoDatabase, { prefix, mode: "local" });
  geo.on("error", () => undefined);
  const receiver = createReceiver(redis, logChannel, { prefix, consumer, flushMs: 300 });
  receiver.on("error", () => undefined);
  const end = new AbortController();
  let lines = 0;
  let file: string | null = null;
  const sendStatus = (): void => report({ lines, file } satisfies ConsumerStatus);
  sendStatus();
  await geo.ready();

  const locator = { country: (address: string) => geo.lookupSync(address).place?.country };
  const countries = dailyCountry({ locator });
  const status: LinesHandler = (batch, results) => {
    for (const line of batch) results.increment("status", / (\d{3}) (?:\d+|-) "/.exec(line)?.[1] ?? "unreadable");
  };
  const handler: LinesHandler = async (batch, results, context) => {
    file = context.file;
    await (consumer === "countries" ? countries : status)(batch, results, context);
    results.increment("lines", consumer, batch.length);
    lines += batch.length;
    sendStatus();
  };
  const receive = async (): Promise<void> => {
    while (!end.signal.aborted) {
      await receiver.run(handler, { signal: end.signal }).catch(() => undefined);
      await sleep(500, undefined, { signal: end.signal }).catch(() => undefined);
    }
  };
  void receive();
  return {
    stop: async () => {
      end.abort();
      await receiver.close({ timeoutMs: 300 }).catch(() => undefined);
      await geo.close().catch(() => undefined);
      await redis.close();
    },
  };
});
