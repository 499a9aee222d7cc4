import type { RedisArgument } from "../index.js";

/** Commands of packages and callers that name no key: any node may run them. */
const keyless =
  /^(ping|echo|info|time|config|client|cluster|command|acl|script|function|publish|pubsub|scan|keys|dbsize|wait|waitaof|role|lastsave|latency|slowlog|select)$/;

/** Commands whose number of keys comes right before the keys. */
const counted = /^(eval|evalsha|fcall)(_ro)?$|^b[lz]mpop$/;
const countedFirst = /^(z(union|inter|diff|intercard|mpop)|lmpop|sintercard)$/;
/** Commands whose first argument is a subcommand or an operation. */
const afterSubcommand = /^(object|memory|xinfo|xgroup|bitop)$/;

/** The first key of a command, which a Cluster client uses for routing. Undefined if any node may run the command. */
export const keyOf = (command: string, args: readonly RedisArgument[]): string | undefined => {
  const name = command.toLowerCase();
  const at = (index: number): string | undefined => (args[index] === undefined ? undefined : String(args[index]));
  if (keyless.test(name)) return undefined;
  if (counted.test(name)) return Number(args[1]) > 0 ? at(2) : undefined;
  if (countedFirst.test(name) || afterSubcommand.test(name)) return at(1);
  if (/^xread(group)?$/.test(name)) return at(args.findIndex((arg) => /^streams$/i.test(String(arg))) + 1);
  return at(0);
};
