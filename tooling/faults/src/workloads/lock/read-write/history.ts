/** A caller, as stored in the keys of a read/write lock: `mode|token|holder`. */
export interface Caller {
  readonly text: string;
  readonly isWriter: boolean;
  readonly worker: string;
}

/** One write of a script. */
type Write =
  | { readonly what: "hold" | "extend"; readonly caller: Caller; readonly endsAt: number }
  | { readonly what: "end"; readonly caller: Caller; readonly isOwn: boolean }
  | { readonly what: "join"; readonly caller: Caller; readonly ticket: number }
  | { readonly what: "leave"; readonly caller: Caller }
  | {
      readonly what: "stand";
      readonly caller: Caller;
      readonly aliveUntil: number;
      readonly inbox: string;
      readonly asked: number;
    }
  | { readonly what: "fence"; readonly token: bigint };

/** All writes of one run of a script. The steps of a history are in the order of the server. */
export interface Step {
  /** The server time that the script read, in epoch milliseconds with their fraction. */
  readonly at: number;
  readonly script: string;
  readonly writes: readonly Write[];
}

/** The same caller in the other mode. */
export const otherMode = ({ text }: Caller): string => `${text.startsWith("r") ? "w" : "r"}${text.slice(1)}`;

const parseCaller = (text: string): Caller => ({
  text,
  isWriter: text.startsWith("w"),
  worker: text.split("|")[2] ?? "",
});

const parseWrite = (what: string, text: string, [value = "", inbox = "", asked = "0"]: readonly string[]): Write => {
  const caller = parseCaller(text);
  switch (what) {
    case "hold":
    case "extend":
      return { what, caller, endsAt: Number(value) };
    case "end":
      return { what, caller, isOwn: value === "own" };
    case "join":
      return { what, caller, ticket: Number(value) };
    case "leave":
      return { what, caller };
    case "stand":
      return { what, caller, aliveUntil: Number(value), inbox, asked: Number(asked) };
    case "fence":
      return { what, token: BigInt(value) };
    default:
      throw new Error(`Not a write of the history: ${what}`);
  }
};

/** Parses the lines that recorder.lua wrote for one name. The lines of a script share its instant. */
export const parseSteps = (lines: readonly string[]): Step[] => {
  const steps: { at: number; instant: string; script: string; writes: Write[] }[] = [];
  for (const line of lines) {
    const [instant = "", script = "", what = "", text = "", ...values] = line.split(" ");
    let step = steps.at(-1);
    if (step?.instant !== instant || step.script !== script)
      steps.push((step = { at: Number(instant) / 1_000, instant, script, writes: [] }));
    step.writes.push(parseWrite(what, text, values));
  }
  return steps;
};
