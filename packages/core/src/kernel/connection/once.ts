import { isReplyError } from "../base/errors.js";
import type { RedisLike } from "./client.js";

/** A command of ioredis: the members that write and end it, the same in all versions. */
interface Command {
  reject(error: unknown): void;
  toWritable(stream: unknown): string | Buffer;
}

/** ioredis. Other clients do not have this method, and never send a command again. */
interface Sender extends RedisLike {
  sendCommand(command: Command, ...others: unknown[]): Promise<unknown>;
}

/** A command under way that is never sent again. */
interface Sent {
  readonly replying: Promise<unknown>;
  /** Its connection is lost, and its reply with it: rejects now instead of when the client is connected again. */
  readonly lose: () => void;
}

const ping = "*1\r\n$4\r\nPING\r\n";

/**
 * Sends a command that ioredis does not send again after its reply was lost. A single-server client repeats such commands on its
 * next connection (`autoResendUnfulfilledCommands`), a Cluster client on another node, and no option leaves out one command. So
 * what is written the second time is a PING, whose reply nobody gets. A command that the server refused goes out again as it is.
 *
 * `send` calls the command's method of the client that it gets. Undefined: the client is not ioredis.
 */
export const sendOnce = (client: RedisLike, send: (client: RedisLike) => Promise<unknown>): Sent | undefined => {
  const sender = client as Sender;
  if (!("sendCommand" in client)) return undefined;
  let lose: () => void = () => undefined;
  const sendCommand: Sender["sendCommand"] = (command, ...others) => {
    const reject = command.reject.bind(command);
    const write = command.toWritable.bind(command);
    lose = () => reject(new Error("Connection is closed."));
    let isWritten = false;
    command.toWritable = (stream) => {
      if (isWritten) {
        lose();
        return ping;
      }
      isWritten = true;
      return write(stream);
    };
    const replying = sender.sendCommand(command, ...others);
    // A Cluster client has replaced it by now, by one that sends the command again.
    const rejectOrRepeat = command.reject.bind(command);
    command.reject = (error) => {
      if (isReplyError(error)) isWritten = false;
      if (isWritten) reject(error);
      else rejectOrRepeat(error);
    };
    return replying;
  };
  // The client itself is not changed. A pipeline would take the command away from us.
  const view = Object.create(client, { sendCommand: { value: sendCommand }, isPipeline: { value: true } }) as RedisLike;
  return { replying: send(view), lose: () => lose() };
};
