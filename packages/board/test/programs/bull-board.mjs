import { createServer } from "node:http";
import { createBullBoard } from "@bull-board/api";
import { ExpressAdapter } from "@bull-board/express";
import { createBullBoardAdapter } from "@kit/board/bull-board";
import { connect } from "@kit/core";

const redis = await connect({ url: process.env["REDIS_URL"] });
const serverAdapter = new ExpressAdapter();
createBullBoard({
  // Add `new BullMQAdapter(queue)` for each queue of BullMQ.
  queues: [createBullBoardAdapter(redis, { queue: "mail" }), createBullBoardAdapter(redis, { queue: "video" })],
  serverAdapter,
});

// With Express: serverAdapter.setBasePath("/queues"); app.use("/queues", requireLogin, serverAdapter.getRouter());
createServer(serverAdapter.getRouter()).listen(Number(process.env["PORT"]), "127.0.0.1");
