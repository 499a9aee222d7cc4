/** The packages load parts of themselves when they need them, so Next.js must not bundle them. */
export default {
  serverExternalPackages: ["@kit/board", "@kit/core", "@kit/lock", "@kit/queue", "ioredis"],
};
