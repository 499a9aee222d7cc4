export const dynamic = "force-dynamic";

// Next.js also loads this file when it builds, where there is no Redis.
const handler = async (request) => {
  const { board } = await import("./board.mjs");
  return await board(request);
};
export { handler as GET, handler as POST };
