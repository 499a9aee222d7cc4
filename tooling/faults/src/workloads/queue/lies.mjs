export const lies = {
  "copies-are-not-awaited": ({ createQueue }) => ({
    createQueue: (client, name, options) => createQueue(client, name, { ...options, durable: undefined }),
  }),
};
