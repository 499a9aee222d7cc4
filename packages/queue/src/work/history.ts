import type { QueueCommands } from "../store/commands.js";
import type { Ending } from "./endings.js";

/** Records jobs that have ended. Created by `keepHistory()` of `@kit/queue/history`. Without it nothing is recorded. */
export interface Recorder {
  /** Records jobs before the server ends them. Never rejects. */
  record(commands: QueueCommands, endings: readonly Ending[]): Promise<void>;
  /** The server refused to end the jobs with these members of `leases`. Never rejects. */
  forget(commands: QueueCommands, members: readonly string[]): Promise<void>;
}
