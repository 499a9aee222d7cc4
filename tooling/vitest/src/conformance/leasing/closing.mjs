// A process that acquires a lease and then has nothing more to do. It must end by itself.
//   closing.mjs <module> <close|hold|absent> <url> <prefix> <name>
import assert from "node:assert/strict";

const [module, how, url, prefix, name] = process.argv.slice(2);
const { make, Redis } = await import(module);
// The channel to the parent must not keep the process alive.
process.channel?.unref();
const redis = new Redis(url);
const leaser = make(redis, name, { prefix });

if (how === "close") {
  const held = await leaser.acquire();
  const waiting = leaser.acquire();
  await new Promise((resolve) => leaser.once("waiting", resolve));
  await held.release();
  await waiting;
  await leaser.close({ timeoutMs: 50 });
  await redis.quit();
} else if (how === "hold") {
  await leaser.acquire();
  await redis.quit();
} else {
  await assert.rejects(leaser.acquire(), { code: "KIT_UNAVAILABLE", address: new URL(url).host });
  // Before close(), since afterwards the client prints its own errors.
  redis.disconnect();
  await leaser.close();
}
