import type { QueueCommands } from "../commands.js";
import type { Ending } from "./endings.js";

/** Records jobs that have ended. `keepHistory()` of `@kit/queue/history` makes it; without it nothing is recorded. */
export interface Recorder {
  /** Records jobs before the server ends them. It does not reject. */
  record(commands: QueueCommands, endings: readonly Ending[]): Promise<void>;
  /** The server refused the ends of the jobs with these members of `leases`. It does not reject. */
  forget(commands: QueueCommands, members: readonly string[]): Promise<void>;
}
