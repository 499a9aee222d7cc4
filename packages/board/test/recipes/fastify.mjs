import { getRequestListener } from "@hono/node-server";
import { fastify } from "fastify";
import { board } from "./board.mjs";

const app = fastify();
const listener = getRequestListener(board);
await app.register(async (scope) => {
  // The board reads its forms itself.
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser("*", (_request, _payload, done) => done(null));
  scope.all("/board", (request, reply) => {
    reply.hijack();
    return listener(request.raw, reply.raw);
  });
});
await app.listen({ port: Number(process.env["PORT"]) });
console.log(`listens: ${app.server.address().port}`);
