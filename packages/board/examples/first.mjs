import { connect } from "@kit/core";
import { createBoard } from "@kit/board";

const redis = await connect();
// Add what to show, such as the `descriptor` of "@kit/queue/descriptor".
const board = createBoard(redis, { packages: [], title: "shop, staging" });

// Your web server calls it with each request. Any path will do.
const response = await board(new Request("http://localhost/admin/board"));
console.log(response.status, response.headers.get("content-type"));
// prints: 200 text/html; charset=utf-8

await redis.close();
