import { defineScript } from "@kit/core";
import pageSource from "../../store/scripts/page.lua";
import listKeptSource from "./listKept.lua";
import readRecordSource from "./readRecord.lua";

/** Reads the record of an ended job. Undefined if there is none. */
export const readRecord = defineScript({
  name: "queue.readRecord",
  source: readRecordSource,
  keys: ["kept", "records"],
  args: ["id"],
  readonly: true,
  bytes: true,
  reply: (raw): { readonly at: number; readonly record: Buffer } | undefined => {
    const [at, record] = raw as [Buffer, Buffer];
    return record.length === 0 ? undefined : { at: Number(String(at)), record };
  },
});

/** A page of records without results. */
interface KeptPage {
  /** How many records to skip for the next page. Undefined if this is the last page. */
  readonly next: number | undefined;
  readonly page: readonly {
    readonly id: string;
    readonly at: number;
    readonly head: string;
    readonly bytes: number;
  }[];
}

/** Reads a page of the records of ended jobs. */
export const listKept = defineScript({
  name: "queue.listKept",
  source: [pageSource, listKeptSource],
  keys: ["jobs", "kept", "records"],
  args: ["from", "start", "count", "name"],
  readonly: true,
  reply: (raw): KeptPage => {
    const [next = "-1", ...all] = (raw as unknown[]).map(String);
    return {
      next: next === "-1" ? undefined : Number(next),
      page: Array.from({ length: all.length / 4 }, (_, row) => {
        const [id = "", at = "", head = "", bytes = ""] = all.slice(4 * row, 4 * row + 4);
        return { id, at: Number(at), head, bytes: Number(bytes) };
      }),
    };
  },
});
