import { connect } from "@kit/core";
import { createBoard } from "@kit/board";
import { descriptor as lock } from "@kit/lock/descriptor";
import { descriptor as queue } from "@kit/queue/descriptor";

export const redis = await connect();

export const board = createBoard(redis, {
  packages: [queue, lock],
  title: "shop, production",
  // Read your own session here. Everybody who is logged in may look, and the operators may act.
  authorize: (request, action) => {
    const user = userOf(request);
    return action === "view" || user?.isOperator ? user?.name : undefined;
  },
  onAction: ({ person, action, thing, outcome }) =>
    console.log(`audit: ${person} ${action} ${thing.names.join()} ${outcome}`),
});

/** Stands for your session: here a header that only your login proxy can set. */
function userOf(request) {
  const name = request.headers.get("x-user");
  return name ? { name, isOperator: name === "ann" } : undefined;
}
