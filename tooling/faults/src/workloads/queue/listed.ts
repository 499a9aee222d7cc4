import type { Judge } from "../../common-invariants.js";
import type { RunHistory } from "./history.js";

/** How long a worker is listed after its last sign of life, in milliseconds. */
export const listedMs = 30_000;

/** `listed`: no worker is listed whose last sign of life is 30 s old. */
export const checkListed = ({ workers }: RunHistory, judge: Judge<"listed">): void => {
  for (const { records } of workers)
    for (const record of records)
      if (record.kind === "listed")
        for (const { id, silentMs } of record.workers)
          judge("listed", silentMs >= listedMs && `${record.name} lists ${id}, silent for ${String(silentMs)} ms`);
};
