import { board } from "./board.mjs";

export const dynamic = "force-dynamic";
export { board as GET, board as POST };
