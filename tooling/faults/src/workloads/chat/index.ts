import { modeOf, surround } from "../../lab/lab.js";
import { runLeg } from "../../leg.js";
import { failoverRows } from "../../rows/failover.js";
import { rows as allRows } from "../../rows/index.js";
import type { Row } from "../../rows/row.js";
import type { LegOptions, LegReport, Workload } from "../../workload.js";
import { laws, recoveryMs, remarksOn, verdictOn, worstStallMs } from "./checker.js";
import { chatControls, moduleOf } from "./controls.js";
import { ChatLab } from "./lab.js";

const workers = 5;

/** Rows that strike durable writes, the letters of a lock's lease, or subscribers: the chat blocks in a read instead. */
const isForOthers = ({ kind }: Row): boolean =>
  ["20 replica stopped", "34 byte flipped", "11 subscribers killed"].includes(kind);

const rows: readonly Row[] = [...allRows, ...failoverRows].filter((row) => !isForOthers(row));

const run = async (leg: LegOptions): Promise<LegReport> => {
  const { seed, setting, mode = modeOf[setting], control } = leg;
  const broken = chatControls.find(({ name }) => name === control?.name);
  const options = { seed, setting, mode, chatModule: moduleOf(broken) };
  const lab = new ChatLab(options, await surround(options));
  return await runLeg(lab, workers, leg, (history) => ({
    ...verdictOn(history),
    recoveries: lab.marks
      .filter(({ kind }) => kind !== "end")
      .map((mark) => ({ kind: mark.kind, ms: recoveryMs(history, mark.at) }))
      .filter(({ ms }) => Number.isFinite(ms)),
    worstStallMs: worstStallMs(history),
    duplicates: history.echoes,
    remarks: remarksOn(history),
  }));
};

/** Senders, readers and listeners of some chats, and workers of a mailbox. */
export const workload: Workload = {
  name: "chat",
  laws,
  rows,
  shares: { kept: 0.5, lost: 0.12, shifted: 0.08, failover: 0.2, cluster: 0.1 },
  edges: [],
  controls: chatControls,
  run,
};
