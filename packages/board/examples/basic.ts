import { connect } from "@kit/core";
import { createBoard } from "@kit/board";
import { descriptor as queue } from "@kit/queue/descriptor";
import { createQueue } from "@kit/queue";

const redis = await connect();
const mail = createQueue(redis, "mail");
await mail.add("email", { to: "ann@example.org" });

const board = createBoard(redis, { packages: [queue] });

// Your web server calls it. Any path will do.
const response = await board(new Request("http://localhost/admin/board?thing=queue&name=mail"));
console.log(response.status, response.headers.get("content-type"));
// prints: 200 text/html; charset=utf-8
console.log((await response.text()).includes("No worker is connected. Jobs wait until one starts."));
// prints: true

await mail.close();
await redis.close();
