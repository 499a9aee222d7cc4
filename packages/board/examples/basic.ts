import { connect } from "@kit/core";
import { createBoard } from "@kit/board";
import { descriptor as queue } from "@kit/queue/descriptor";
import { createQueue } from "@kit/queue";

const redis = await connect();
const mail = createQueue(redis, "mail");
await mail.add("email", { to: "ann@example.org" });

const board = createBoard(redis, { packages: [queue] });

const response = await board(new Request("http://localhost/admin/board?thing=queue&name=mail"));
console.log((await response.text()).includes("No worker is connected. Jobs wait until one starts."));
// prints: true

await mail.close();
await redis.close();
