export const lies = {
  /** Each worker is content with one of the three servers, the next worker with the next. */
  "quorum-of-a-minority": ({ createQuorumLock }) => ({
    createQuorumLock: (clients, options) => {
      const number = Number(options.holder.slice(1));
      return createQuorumLock([clients[number % clients.length]], options);
    },
  }),
};
