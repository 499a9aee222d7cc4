// The access log of the web server: a file in the combined format, handed to the shipper every few seconds.
import { createWriteStream, type WriteStream } from "node:fs";
import { rename } from "node:fs/promises";
import { once } from "node:events";
import { join } from "node:path";
import { isIP } from "node:net";
import { type LogLine, logLine } from "../seed/access-log.js";

const rotateMs = 4_000;
const mostBytes = 8 * 1024 * 1024;

export class AccessLog {
  readonly #folder: string;
  readonly #pass: string;
  readonly #timer: NodeJS.Timeout;
  #file: WriteStream | undefined;
  #lines = 0;
  #number = 0;

  constructor(folder: string, pass: string) {
    this.#folder = folder;
    this.#pass = pass;
    this.#timer = setInterval(() => void this.turn().catch(() => undefined), rotateMs).unref();
  }

  /** Lines written since the shop was opened. */
  lines = 0;

  /** The address that a header states, if it carries the pass; otherwise that of this machine. */
  addressOf(header: string | undefined): string {
    const [pass, address] = (header ?? "").split(" ");
    return pass === this.#pass && address !== undefined && isIP(address) !== 0 ? address : "127.0.0.1";
  }

  write(line: LogLine): void {
    this.#file ??= createWriteStream(join(this.#folder, `writing-${++this.#number}`)).on("error", () => undefined);
    // Lines are dropped when the disk is too slow or full, so that requests are not delayed.
    if (this.#file.writableLength > mostBytes) return;
    this.#file.write(logLine(line));
    this.#lines++;
    this.lines++;
  }

  /** Rotates the current file, if it is not empty. */
  async turn(): Promise<void> {
    const file = this.#file;
    if (!file || this.#lines === 0) return;
    const number = this.#number;
    this.#file = undefined;
    this.#lines = 0;
    file.end();
    await once(file, "close");
    // A rename is atomic, so the shipper never finds half a file.
    const name = `access-${Date.now()}${String(number).padStart(4, "0")}.log`;
    await rename(join(this.#folder, `writing-${number}`), join(this.#folder, name));
  }

  close(): void {
    clearInterval(this.#timer);
    this.#file?.end();
  }
}
