// The read/write lock of ours, the plain lock in its place, and the least that such a lock costs.
import { pushed } from "../../loops/caller.js";
import { type Definition, neverTold, type LockCaller } from "./lock-caller.js";

const kit: Definition = {
  id: "read/write lock",
  peer: "kit",
  settings: "defaults but deadlineMs: 20000; fencing for writers, in order of arrival",
  open: async (url, { leaseMs, renew }, connect) => {
    const { createReadWriteLock } = await import("@kit/lock/read-write");
    const lock = createReadWriteLock(await connect(url), { leaseMs, renew, deadlineMs: 20_000 });
    const using: LockCaller["using"] = (name, routine, isReader = false) =>
      (isReader ? lock.read : lock.write).using(name, () => routine(neverTold));
    return { caller: () => ({ using }), renews: true, leaseKey: (name) => name };
  },
};

const plain: Definition = {
  id: "plain lock",
  settings: "createLock for readers and writers alike; defaults but deadlineMs: 20000",
  open: async (url, { leaseMs, renew }, connect) => {
    const { createLock } = await import("@kit/lock");
    const lock = createLock(await connect(url), { leaseMs, renew, deadlineMs: 20_000 });
    const using: LockCaller["using"] = (name, routine) => lock.using(name, () => routine(neverTold));
    return { caller: () => ({ using }), renews: true, leaseKey: (name) => name };
  },
};

// The state is the number of readers, or -1 for a writer. A token begins with the mode.
const takeOrQueue = `
local mode = ARGV[1]:sub(1, 1)
local state = tonumber(redis.call("GET", KEYS[1]) or 0)
if redis.call("EXISTS", KEYS[2]) == 0 and (state == 0 or (mode == "r" and state > 0)) then
  redis.call("SET", KEYS[1], mode == "r" and state + 1 or -1, "PX", ARGV[3])
  return 1
end
redis.call("RPUSH", KEYS[2], ARGV[1] .. " " .. ARGV[2])
return 0`;

const handOn = `
local state = tonumber(redis.call("GET", KEYS[1]) or 0)
state = state > 0 and state - 1 or 0
while true do
  local head = redis.call("LINDEX", KEYS[2], 0)
  if not head or state < 0 or (head:sub(1, 1) == "w" and state > 0) then break end
  redis.call("LPOP", KEYS[2])
  state = head:sub(1, 1) == "w" and -1 or state + 1
  local token, inbox = head:match("(.*) (.*)")
  redis.call("PUBLISH", inbox, token)
end
return redis.call("SET", KEYS[1], state, "PX", ARGV[1])`;

const raw: Definition = {
  id: "raw read/write",
  peer: "floor",
  settings:
    "EVALSHA takes or queues; EVALSHA gives to the next writer or readers, PUBLISH to each; a count for all readers, no checks, leases of their own, renewal, fencing or crash safety",
  open: async (url, { leaseMs }) => {
    const bare = await pushed(url, takeOrQueue, handOn, leaseMs);
    const using: LockCaller["using"] = (name, routine, isReader = false) =>
      bare.using(name, () => routine(neverTold), isReader ? "r" : "w");
    return { caller: () => ({ using }), renews: false, leaseKey: (name) => name };
  },
};

export const readWriteDefinitions: readonly Definition[] = [kit, plain, raw];
