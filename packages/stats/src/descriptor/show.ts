import type { CliCommand } from "@kit/core/toolkit";
import { nameAbout, stepOption } from "./inspect.js";
import { metricReport } from "./metric-report.js";
import { seriesOf } from "./series.js";
import { spanOption } from "./spans.js";

export const showCommand: CliCommand = {
  path: "stats show",
  about: "show a counter or distribution over time",
  args: [{ name: "name", about: nameAbout, listedIn: "metrics" }],
  options: [{ name: "since", takes: "text", about: "how far back, such as 10m, 2h or 7d (default: 1h)" }, stepOption],
  run: async (call, name: string) => {
    const sinceMs = spanOption(call, "since") ?? 3_600_000;
    await call.output.report(await metricReport(call, seriesOf(name), { sinceMs, stepMs: spanOption(call, "step") }));
  },
};
