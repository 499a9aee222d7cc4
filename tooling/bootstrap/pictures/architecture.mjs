/** @typedef {import("./diagram.mjs").Diagram} Diagram */

/** The states of a job; each arrow is one script. @type {Diagram} */
const job = {
  title: "The life of a job: each arrow is one script",
  size: [840, 400],
  boxes: {
    add: { at: [24, 84], size: [100, 56], lines: ["add"], is: "process" },
    ready: { at: [250, 72], size: [150, 80], lines: ["ready", "waiting,", "prioritised"], is: "redis" },
    active: { at: [560, 72], size: [150, 80], lines: ["active", "held under a lease"], is: "redis" },
    done: { at: [760, 84], size: [60, 56], lines: ["done"], is: "ours" },
    delayed: { at: [190, 260], size: [140, 64], lines: ["delayed", "until it is due"], is: "redis" },
    dead: { at: [630, 260], size: [140, 64], lines: ["dead", "a dead letter"], is: "redis" },
    note: {
      at: [24, 376],
      lines: [
        "A job is in exactly one of these places, and its data in one hash: a crash finds it in none between two.",
      ],
      is: "words",
    },
  },
  arrows: [
    { from: ["add", "right"], to: ["ready", "left"], label: "at once" },
    { from: ["add", "bottom"], to: ["delayed", "left"], label: "with delayMs", labelAt: [0, 0] },
    { from: ["ready", "right"], to: ["active", "left"], shift: [-18, -18], label: "a worker takes it" },
    { from: ["active", "left"], to: ["ready", "right"], shift: [18, 18], label: "lease ended", labelAt: [0, 22] },
    { from: ["active", "right"], to: ["done", "left"] },
    { from: ["delayed", "top"], to: ["ready", "bottom"], label: "due", shift: [20, -45] },
    {
      from: ["active", "bottom"],
      to: ["delayed", "right"],
      shift: [-35, 14],
      label: "failed: again after its back-off",
    },
    { from: ["active", "bottom"], to: ["dead", "top"], shift: [40, -25], label: "failed for good" },
    { from: ["dead", "left"], to: ["ready", "bottom"], shift: [-16, 40], label: "redrive", labelAt: [-40, 0] },
  ],
};

/** The wait queue of a lock. @type {Diagram} */
const lock = {
  title: "A lock: a release hands it to the next waiter, in one step",
  size: [840, 390],
  boxes: {
    holder: { at: [24, 84], size: [150, 64], lines: ["web-1", "holds the lock"], is: "process" },
    next: { at: [24, 204], size: [150, 64], lines: ["web-2", "waits, does not poll"], is: "process" },
    later: { at: [24, 294], size: [150, 44], lines: ["web-3, web-4"], is: "process" },
    keys: { at: [300, 56], size: [516, 296], lines: ["Redis: the keys of item:42, in one slot"], is: "frame" },
    lease: { at: [330, 92], size: [200, 56], lines: ["lease", "the holder's token, expires"], is: "redis" },
    fence: { at: [596, 92], size: [200, 56], lines: ["fence", "grows with each grant"], is: "redis" },
    queue: { at: [330, 204], size: [200, 64], lines: ["queue", "web-2, web-3, web-4"], is: "redis" },
    inboxes: { at: [596, 204], size: [200, 64], lines: ["waiters", "inbox, alive until"], is: "redis" },
    note: {
      at: [330, 312],
      lines: [
        "release.lua: delete the lease, grant it to the first",
        "waiter that is alive, with a new fence, then PUBLISH.",
      ],
      is: "words",
    },
  },
  arrows: [
    { from: ["holder", "right"], to: ["lease", "left"], label: "release", shift: [0, -4] },
    { from: ["queue", "top"], to: ["lease", "bottom"], label: "grant" },
    { from: ["lease", "right"], to: ["fence", "left"], label: "+ 1" },
    { from: ["queue", "left"], to: ["next", "right"], label: "push: granted", shift: [-14, -14] },
    { from: ["next", "right"], to: ["queue", "left"], label: "heartbeat", shift: [14, 14], labelAt: [0, 22] },
    { from: ["queue", "right"], to: ["inboxes", "left"] },
  ],
};

/** Log files through Redis. @type {Diagram} */
const logship = {
  title: "Log shipping: results and position are committed together",
  size: [840, 390],
  boxes: {
    file: { at: [24, 92], size: [130, 56], lines: ["access.log", "plain or gzip"] },
    shipper: { at: [24, 184], size: [130, 56], lines: ["shipper", "waits at the limit"], is: "process" },
    channel: { at: [256, 64], size: [310, 270], lines: ["Redis: the channel, at most limitBytes"], is: "frame" },
    chunks: { at: [286, 104], size: [250, 52], lines: ["chunks", "compressed, each with a CRC-32"], is: "redis" },
    space: {
      at: [286, 186],
      size: [250, 52],
      lines: ["used + reserved ≤ limit", "by the server's accounting"],
      is: "redis",
    },
    results: {
      at: [286, 268],
      size: [250, 52],
      lines: ["results and position", "of each consumer, in one script"],
      is: "redis",
    },
    consumers: { at: [644, 64], size: [176, 270], lines: ["each at its own pace"], is: "frame" },
    one: { at: [660, 104], size: [144, 56], lines: ["consumer geo"], is: "process" },
    two: { at: [660, 186], size: [144, 56], lines: ["consumer status", "was killed"], is: "process" },
    three: { at: [660, 268], size: [128, 52], lines: ["goes on behind", "its last commit"], is: "words" },
    note: {
      at: [24, 366],
      lines: [
        "A chunk is freed when every consumer has committed beyond it. At the limit the shipper holds its source up.",
      ],
      is: "words",
    },
  },
  arrows: [
    { from: ["file", "bottom"], to: ["shipper", "top"], label: "blocks" },
    { from: ["shipper", "right"], to: ["space", "left"], label: "reserves", labelAt: [0, 22] },
    { from: ["shipper", "right"], to: ["chunks", "left"], label: "writes", shift: [-16, 0], labelAt: [4, 0] },
    { from: ["chunks", "right"], to: ["consumers", "left"], label: "lines", shift: [0, -69], labelAt: [14, 0] },
    { from: ["consumers", "left"], to: ["results", "right"], label: "commit", shift: [95, 0], labelAt: [14, 0] },
  ],
};

/** The keys of a chat. @type {Diagram} */
const chat = {
  title: "A chat: numbered messages, and a position for each member",
  size: [840, 420],
  boxes: {
    sender: { at: [24, 96], size: [130, 44], lines: ["buyer"], is: "process" },
    reader: { at: [24, 248], size: [130, 64], lines: ["seller", "comes a week later"], is: "process" },
    shard: {
      at: [256, 60],
      size: [560, 316],
      lines: ["Redis: one of 16 shards, so one slot. A chat lies in one of them"],
      is: "frame",
    },
    messages: {
      at: [286, 96],
      size: [240, 56],
      lines: ["messages: a stream", "1, 2, 3, 4, 5: without holes"],
      is: "redis",
    },
    activity: { at: [576, 96], size: [220, 56], lines: ["activity: a stream", "which chats have news"], is: "redis" },
    positions: { at: [286, 252], size: [240, 56], lines: ["positions in the chat", "buyer 5, seller 2"], is: "redis" },
    own: {
      at: [576, 252],
      size: [220, 56],
      lines: ["positions of the seller", "in the chats of this shard"],
      is: "redis",
    },
    unread: {
      at: [286, 338],
      lines: [
        "Unread of the seller: the messages of others after 2, counted exactly.",
        "What retention drops before it was read is reported as a gap.",
      ],
      is: "words",
    },
    note: {
      at: [24, 400],
      lines: [
        "One script writes the message, moves the sender's position, and adds the activity that wakes those who wait.",
      ],
      is: "words",
    },
  },
  arrows: [
    { from: ["sender", "right"], to: ["messages", "left"], label: "send", shift: [0, -6] },
    { from: ["messages", "right"], to: ["activity", "left"] },
    { from: ["messages", "left"], to: ["reader", "right"], label: "fetch", shift: [16, -18], labelAt: [-42, 0] },
    { from: ["reader", "right"], to: ["positions", "left"], label: "ack 5", shift: [14, 14], labelAt: [0, 22] },
    { from: ["positions", "right"], to: ["own", "left"] },
    { from: ["messages", "bottom"], to: ["positions", "top"], label: "moves the sender's" },
  ],
};

/** The permits of a semaphore. @type {Diagram} */
const semaphore = {
  title: "A semaphore: a release grants to the next waiters while they fit",
  size: [840, 400],
  boxes: {
    ann: { at: [24, 92], size: [140, 56], lines: ["jobs of ann", "a tenant"], is: "process" },
    bob: { at: [24, 252], size: [140, 56], lines: ["jobs of bob", "another tenant"], is: "process" },
    keys: { at: [256, 60], size: [560, 294], lines: ["Redis: the keys of one semaphore, in one slot"], is: "frame" },
    queueAnn: { at: [286, 92], size: [150, 56], lines: ["queue of ann", "priority, arrival"], is: "redis" },
    queueBob: { at: [286, 252], size: [150, 56], lines: ["queue of bob", "bob has his limit"], is: "redis" },
    ready: { at: [490, 92], size: [130, 56], lines: ["ready", "tenants with room"], is: "redis" },
    permits: { at: [670, 92], size: [126, 56], lines: ["permits", "each with its end"], is: "redis" },
    limits: {
      at: [490, 252],
      size: [306, 56],
      lines: ["limits: 8 permits, 5 for each tenant", "setPermits changes them while it runs"],
      is: "redis",
    },
    note: {
      at: [24, 380],
      lines: [
        "The weights sum to at most the limit, by the server's clock. A full tenant is not in ready, and delays nobody.",
      ],
      is: "words",
    },
  },
  arrows: [
    { from: ["ann", "right"], to: ["queueAnn", "left"], label: "acquire", labelAt: [-14, 0] },
    { from: ["bob", "right"], to: ["queueBob", "left"], label: "acquire", labelAt: [-14, 0] },
    { from: ["queueAnn", "right"], to: ["ready", "left"], label: "first" },
    { from: ["ready", "right"], to: ["permits", "left"], label: "grant" },
    { from: ["limits", "top"], to: ["permits", "bottom"], shift: [90, 0], label: "what fits" },
    { from: ["queueBob", "top"], to: ["ready", "bottom"], label: "once bob has room" },
  ],
};

/** The drawings by their names. */
export const drawings = { job, lock, logship, chat, semaphore };
