import { connect, type Socket } from "node:net";

interface Pending {
  readonly resolve: (reply: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** The name of all connections that this package itself keeps open. */
export const ADMIN_NAME = "kit-testing-admin";

/**
 * One plain RESP2 connection for the commands of the test kit itself: it sends each command once, never again after a
 * lost connection, prints nothing, and keeps no process alive while it is idle. It opens itself at the first command.
 */
export class AdminConnection {
  readonly #host: string;
  readonly #port: number;
  readonly #password: string | undefined;
  #socket: Socket | undefined;
  #received: Buffer = Buffer.alloc(0);
  #pending: Pending[] = [];

  constructor(host: string, port: number, password: string | undefined) {
    this.#host = host;
    this.#port = port;
    this.#password = password;
  }

  call(command: readonly string[]): Promise<unknown> {
    const socket = this.#socket ?? this.#open();
    return this.#send(socket, command);
  }

  close(): void {
    this.#socket?.destroy();
    this.#drop(new Error("closed"));
  }

  #open(): Socket {
    const socket = connect(this.#port, this.#host);
    this.#socket = socket;
    socket.setNoDelay(true);
    let failure: Error | undefined;
    socket.on("error", (error) => (failure = error));
    socket.on("close", () => {
      if (this.#socket === socket) this.#drop(failure);
    });
    socket.on("data", (chunk) => this.#receive(chunk));
    // The errors of these do not matter: a wrong password shows in the reply to the next command.
    const preamble = [["CLIENT", "SETNAME", ADMIN_NAME]];
    if (this.#password !== undefined) preamble.unshift(["AUTH", this.#password]);
    for (const command of preamble) this.#send(socket, command).catch(() => {});
    return socket;
  }

  #send(socket: Socket, command: readonly string[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#pending.push({ resolve, reject });
      socket.ref();
      socket.write(encode(command));
    });
  }

  #receive(chunk: Buffer): void {
    this.#received = Buffer.concat([this.#received, chunk]);
    let at = 0;
    for (;;) {
      const parsed = decode(this.#received, at);
      if (!parsed) break;
      at = parsed.end;
      const pending = this.#pending.shift();
      if (parsed.value instanceof Error) pending?.reject(parsed.value);
      else pending?.resolve(parsed.value);
    }
    this.#received = this.#received.subarray(at);
    if (this.#pending.length === 0) this.#socket?.unref();
  }

  #drop(cause: Error | undefined): void {
    const pending = this.#pending;
    this.#socket = undefined;
    this.#received = Buffer.alloc(0);
    this.#pending = [];
    for (const { reject } of pending) {
      reject(
        new Error(`No reply from ${this.#host}:${this.#port}: ${cause?.message ?? "connection closed"}`, { cause }),
      );
    }
  }
}

function encode(command: readonly string[]): string {
  return `*${command.length}\r\n${command.map((part) => `$${Buffer.byteLength(part)}\r\n${part}\r\n`).join("")}`;
}

/** The reply that starts at `at`, or undefined while a part of it has not arrived. Errors are values here. */
function decode(data: Buffer, at: number): { value: unknown; end: number } | undefined {
  const lineEnd = data.indexOf("\r\n", at);
  if (lineEnd < 0) return undefined;
  const line = data.toString("utf8", at + 1, lineEnd);
  const next = lineEnd + 2;
  switch (String.fromCharCode(data[at] ?? 0)) {
    case "+":
      return { value: line, end: next };
    case "-":
      return { value: new Error(line), end: next };
    case ":":
      return { value: Number(line), end: next };
    case "$":
      return decodeText(data, next, Number(line));
    case "*":
      return decodeList(data, next, Number(line));
    default:
      return { value: new Error(`Not a RESP2 reply: "${line}"`), end: data.length };
  }
}

function decodeText(data: Buffer, start: number, length: number): { value: unknown; end: number } | undefined {
  if (length < 0) return { value: null, end: start };
  const end = start + length;
  return data.length < end + 2 ? undefined : { value: data.toString("utf8", start, end), end: end + 2 };
}

function decodeList(data: Buffer, start: number, length: number): { value: unknown; end: number } | undefined {
  if (length < 0) return { value: null, end: start };
  const list: unknown[] = [];
  let end = start;
  for (let i = 0; i < length; i += 1) {
    const item = decode(data, end);
    if (!item) return undefined;
    list.push(item.value);
    end = item.end;
  }
  return { value: list, end };
}
