import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { connect } from "@kit/core";
import { createChat } from "@kit/chat";

const redis = await connect(process.env["REDIS_URL"]);
const chat = createChat<string>(redis);
await chat.create("lobby", { members: ["ann", "bob"] });

// A chat over Server-Sent Events. Each event's id is the reader's token, so a browser that reconnects sends it back as
// `Last-Event-ID`, and gets what it missed. A real server takes the member from its session.
const server = createServer((request, response) => {
  const gone = new AbortController();
  response.on("close", () => gone.abort());
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
  void stream(String(request.headers["last-event-id"] ?? ""), gone.signal).catch(() => response.destroy());

  async function stream(lastEventId: string, signal: AbortSignal): Promise<void> {
    let token = lastEventId === "" ? undefined : lastEventId;
    while (!signal.aborted) {
      const page = await chat.fetch("bob", { token, signal });
      const messages = page.chats.flatMap((one) => one.messages);
      token = page.token;
      if (messages.length > 0) response.write(`id: ${token}\ndata: ${JSON.stringify(messages)}\n\n`);
      else if (!page.more) await chat.wait("bob", { token, signal });
    }
  }
}).listen(0, "127.0.0.1");
await once(server, "listening");
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

/** A browser's EventSource in short: reads events until the network is gone, and remembers the last id. */
async function browse(lastEventId: string, enough: number): Promise<{ id: string; texts: string[] }> {
  const network = new AbortController();
  const headers = lastEventId === "" ? {} : { "last-event-id": lastEventId };
  const { body } = await fetch(url, { headers, signal: network.signal });
  let [text, id, texts] = ["", lastEventId, [] as string[]];
  for await (const bytes of body!) {
    text += new TextDecoder().decode(bytes);
    const events = Array.from(text.matchAll(/id: (.*)\ndata: (.*)\n\n/g));
    texts = events.flatMap(([, , data = ""]) => (JSON.parse(data) as { body: string }[]).map((one) => one.body));
    id = events.at(-1)?.[1] ?? id;
    if (texts.length >= enough) break;
  }
  network.abort();
  return { id, texts };
}

await chat.send("lobby", { from: "ann", body: "hello" });
const before = await browse("", 1);
console.log(before.texts.join()); // prints: hello

// The network is gone while these are sent.
await chat.send("lobby", { from: "ann", body: "are you there?" });
await chat.send("lobby", { from: "ann", body: "bob?" });
const after = await browse(before.id, 2);
console.log(after.texts.join()); // prints: are you there?,bob?

server.closeAllConnections();
server.close();
await chat.close();
await redis.close();
