import { readdirSync } from "node:fs";
import { startRedis } from "@kit/testing";
import { describeExamples } from "@tooling/vitest/helpers";

const readme = new URL("../README.md", import.meta.url);
const docs = new URL("../docs/", import.meta.url);
const pages = readdirSync(docs).map((page) => new URL(page, docs));

describeExamples(startRedis, [readme, ...pages], {
  "component.ts": /^1\n2 ready$/,
  "config.ts":
    /^search-1 fresh\nlimit 20 → 50\nrevision 1 came first\nlimit 50 → 80\nlimit 80 → 50\n3 \{"host":"search-1","limit":50\}\n2 \{"host":"search-1","limit":80\}$/,
  "connect.ts": /^true (redis|valkey) \d+\.\d+\.\d+ [\d.]+\nhello$/,
  "isolate.ts": /^1\nthe client was closed$/,
  "once.ts": /^100 and again: 100$/,
  "otel.ts": /^core\.persistenceReport redis$/,
  "flags.ts": /^closed for new disks, back at 2030-01-01T06:00:00\.000Z$/,
  "durable.ts": /^1 short 0 0 of 1 replicas acknowledged$/,
  "optimistic.ts": /^sold 1$/,
  "reports.ts":
    /^master( undefined){3}\nfalse (nothing: no change|the \d+ changes) since the last snapshot; the server makes none automatically \d+\nnull 0 master$/,
  "script.ts": /^1\n2\n2$/,
});
