// A process that imports and dies before its n-th command is sent (0: it lives), by SIGKILL:
//   importer.mjs <url> <prefix> <n>
import { importGeoIp } from "@kit/geoip";
import { Redis } from "ioredis";

const [url, prefix, last] = process.argv.slice(2);
const redis = new Redis(url);
let sent = 0;
const { sendCommand } = redis;
redis.sendCommand = function (command, ...rest) {
  // The first commands of a connection are not the importer's.
  if (!["info", "client", "hello", "auth"].includes(command.name) && ++sent === Number(last))
    process.kill(process.pid, "SIGKILL");
  return sendCommand.call(this, command, ...rest);
};
const ranges = Array.from({ length: 300 }, (_, index) => ({
  network: `1.0.${index % 256}.${index < 256 ? 0 : 128}/25`,
  place: { country: "XB", cityName: `b${index}` },
})).sort(
  (a, b) => Number(a.network.split(".")[2]) - Number(b.network.split(".")[2]) || (a.network < b.network ? -1 : 1),
);
await importGeoIp(redis, "city", ranges, { prefix });
await redis.quit();
process.stdout.write(String(sent));
