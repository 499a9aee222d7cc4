// A process that imports versions of a database and rolls them back while it looks addresses up in every mode. All ranges
// of a version have one number, which no other version has.
import { pause } from "@kit/core/toolkit";
import { Redis } from "ioredis";
import {
  attempt,
  log,
  noteBackground,
  obey,
  repeating,
  run,
  settings,
  subject,
  subjectClient,
} from "../../lab/contender.mjs";

const { prefix, deadlineMs, number } = settings;
const { createGeoIp, importGeoIp, rollbackGeoIp } = subject;

// A version is staged within a few milliseconds. Its record, which comes last, is sent later, so that workers are killed in
// between.
const { sendCommand } = Redis.prototype;
Redis.prototype.sendCommand = function (command, ...rest) {
  if (!command.name.startsWith("eval") || !command.args.includes("manifest"))
    return sendCommand.call(this, command, ...rest);
  setTimeout(() => sendCommand.call(this, command, ...rest), 150);
  return command.promise;
};

const client = await subjectClient(settings.url);
const database = "city";
const readers = ["cached", "server", "local"].map((mode) => {
  const reader = createGeoIp(client, database, { prefix, deadlineMs, mode, cachePages: 2, cachePlaces: 32 });
  reader.on("error", noteBackground);
  return [mode, reader];
});

const ranges = 1_200;
const address = (at) => `11.0.${at >> 4}.${(at & 15) << 4}`;

let turns = 0;
const importAll = repeating(async (random) => {
  const asn = number * 10_000 + ++turns;
  const source = async function* () {
    for (let at = 0; at < ranges; at++) {
      if (at % 300 === 0) await pause(1);
      // Neighbouring ranges with the same place would be merged.
      yield { network: `${address(at)}/28`, place: { asn, postalCode: String(at & 7) } };
    }
  };
  // Short, so that old versions are removed while readers still use them.
  const options = { prefix, deadlineMs, keepPreviousMs: 5_000 };
  const importing = () => importGeoIp(client, database, source(), { ...options, stagingMs: 30_000 });
  await attempt("import", database, 60 * deadlineMs, importing);
  if (random() < 0.3)
    await attempt("rollback", database, 60 * deadlineMs, () => rollbackGeoIp(client, database, options));
}, 400);

/** The number of each version, as first seen. */
const numbers = new Map();

const lookingUp = ([mode, reader]) =>
  repeating(async (random) => {
    const at = Math.floor(random() * ranges);
    let code;
    // A deadline for each command: head, record, page and places, and all again where a version was just removed.
    const found = await attempt("lookup", mode, 30 * deadlineMs, () =>
      reader.lookup(address(at)).catch((error) => {
        ({ code } = error);
        throw error;
      }),
    );
    log("saw", { invariant: "G3", wrong: code === "KIT_GEOIP_CORRUPT" && `${mode} found data missing` });
    if (!found) return;
    const { place, version } = found;
    log("saw", { invariant: "G2", wrong: !place && `${mode} found no place for ${address(at)}: ${found.none}` });
    if (!place) return;
    const known = numbers.get(version) ?? place.asn;
    numbers.set(version, known);
    const isRight = known === place.asn && place.postalCode === String(at & 7);
    log("saw", { invariant: "G1", wrong: !isRight && `${mode} has ${place.asn} of ${version}, which has ${known}` });
  });

await run([importAll, obey, ...[...readers, ...readers].map(lookingUp)], () =>
  Promise.all(readers.map(([, reader]) => reader.close())),
);
