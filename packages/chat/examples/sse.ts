import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { connect, KitError } from "@kit/core";
import { ChatTokenError, createChat, type FetchPage } from "@kit/chat";
import { EventSource } from "eventsource"; // part of every browser

const redis = await connect();
const chat = createChat<string>(redis);
for (const name of ["lobby", "sale"]) await chat.create(name, { members: ["ann", "bob"], retain: { count: 3 } });

// Each event has a page, with its gaps and resets, and the reader's token as its id. A browser that reconnects sends the id
// back as `Last-Event-ID`, and gets what it missed. A real server takes the member from its session.
const server = createServer((request, response) => {
  const gone = new AbortController();
  response.on("close", () => gone.abort());
  stream("bob", String(request.headers["last-event-id"] ?? ""), response, gone.signal).catch((error: unknown) => {
    // After an outage of Redis, or where this process ends, the browser comes back by itself. Another error would come back, too.
    const isPassing = error instanceof KitError && (error.retryable || error.code === "KIT_CLOSED");
    if (!gone.signal.aborted) response.end(isPassing ? "" : "event: failed\ndata: {}\n\n");
  });
});

async function stream(member: string, lastEventId: string, response: ServerResponse, signal: AbortSignal) {
  const write = async (event: string): Promise<void> => {
    // A browser that reads slowly holds back its own stream only.
    if (!response.write(`${event}\n\n`)) await once(response, "drain", { signal });
  };
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
  // Sends the headers at once, however long nothing happens.
  await write("retry: 1000");
  let token = lastEventId === "" ? undefined : lastEventId;
  while (!signal.aborted)
    try {
      const page = await chat.fetch(member, { token, signal });
      ({ token } = page);
      if (page.chats.length > 0 || page.left.length > 0) await write(`id: ${token}\ndata: ${JSON.stringify(page)}`);
      // A comment each 15 s, so that no proxy takes the connection for dead.
      else if (!page.more && !(await chat.wait(member, { token, signal, waitMs: 15_000 }))) await write(":");
    } catch (error) {
      // The id is of another login in this browser, or damaged. Without the empty id it would be sent again.
      if (!(error instanceof ChatTokenError)) throw error;
      token = undefined;
      await write("id\nevent: anew\ndata: {}");
    }
}

server.listen(0, "127.0.0.1");
await once(server, "listening");
const { port } = server.address() as AddressInfo;
const url = `http://127.0.0.1:${port}`;

// In the browser.
const source = new EventSource(url);
source.addEventListener("message", ({ data }) => {
  for (const { chat: name, messages, gap, reset } of (JSON.parse(String(data)) as FetchPage<string>).chats) {
    if (reset) console.log(`${name}: what was shown is of another chat, or may have changed`);
    if (gap) console.log(`${name}: ${gap.to - gap.from + 1} messages are gone`);
    console.log(`${name}: ${messages.map(({ body }) => body).join(", ")}`);
  }
});
source.addEventListener("failed", () => source.close());
await once(source, "open");
console.log("connected"); // prints: connected
for (const name of ["lobby", "sale"]) {
  const arrived = once(source, "message");
  await chat.send(name, { from: "ann", body: "hello" });
  await arrived;
}
// prints: lobby: hello
// prints: sale: hello

// The server restarts. Meanwhile there are more messages than the chat keeps, and another chat gets the name of an older one.
server.close();
server.closeAllConnections();
for (const body of ["1", "2", "3", "4", "5"]) await chat.send("lobby", { from: "ann", body });
await chat.delete("sale");
await chat.create("sale", { members: ["ann", "bob"] });
await chat.send("sale", { from: "ann", body: "welcome" });
server.listen(port, "127.0.0.1");
await once(source, "message");
// prints: lobby: 2 messages are gone
// prints: lobby: 3, 4, 5
// prints: sale: what was shown is of another chat, or may have changed
// prints: sale: welcome

// Ann used this browser before: her id is refused, and the page begins anew.
const { token: ofAnn } = await chat.fetch("ann");
const other = new EventSource(url, {
  fetch: (input, init) => fetch(input, { ...init, headers: { ...init.headers, "last-event-id": ofAnn } }),
});
await once(other, "anew");
console.log("anew"); // prints: anew

source.close();
other.close();
server.close();
server.closeAllConnections();
await chat.close();
await redis.close();
