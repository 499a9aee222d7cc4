import { type CliCommand, counted, dated } from "@kit/core/toolkit";
import { looking } from "./looking.js";

const bodyText = (body: unknown): string => {
  if (typeof body === "string") return body;
  return body instanceof Uint8Array ? `(${counted(body.length, "byte")})` : JSON.stringify(body);
};

export const tailCommand: CliCommand = {
  path: "chat tail",
  about: "print the messages of a chat as they arrive",
  args: [{ name: "chat", about: "name of the chat", listedIn: "chats" }],
  options: [{ name: "last", takes: "integer", about: "number of existing messages to print first (default: 10)" }],
  run: ({ redis, prefix, integer, output, signal }, name: string) =>
    looking(redis, prefix, name, async (chat) => {
      try {
        for await (const message of chat.tail(name, { last: integer("last"), signal })) {
          const { seq, at, from, body } = message;
          const bytes =
            body instanceof Uint8Array ? { body: undefined, base64: Buffer.from(body).toString("base64") } : {};
          const text = `${String(seq)} ${dated(at) ?? "-"} ${from}: ${bodyText(body)}`;
          await output.line({ ...message, ...bytes }, text);
        }
      } catch (error) {
        if (!signal.aborted) throw error;
      }
    }),
};
