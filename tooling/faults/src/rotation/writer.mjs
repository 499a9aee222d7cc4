// A process that writes numbered lines to a log, which a real program rotates: logrotate, or the logger that writes them.
import { spawn } from "node:child_process";
import {
  appendFileSync,
  closeSync,
  existsSync,
  fstatSync,
  openSync,
  statSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { randomOf } from "./random.mjs";

const { kind, rules, isCopied, directory, side, header, lines, seconds, seed } = JSON.parse(process.argv[2]);
const random = randomOf(`${seed} writer`);
const path = join(directory, "app.log");
let until = Infinity;
const lineOf = (number) => `app ${number} ${"x".repeat(40 + (number % 60))}`;
let written = 0;
const isOver = () => written >= lines || performance.now() >= until;

/** Writes the first line, and waits until the job has counted it, so it meets the file again, and until it has been followed: `follow()` leaves out what was compressed before it began. */
const begin = async (write) => {
  await write(lineOf(written++));
  const signs = isCopied ? ["counted"] : ["counted", "followed"];
  while (!signs.every((sign) => existsSync(join(side, sign)))) await pause(20);
  writeFileSync(join(side, "begun"), "");
  until = performance.now() + seconds * 1_000;
};

/** A period with lines. Every sixth or so has none: the log is rotated as it is. */
const period = async (write) => {
  const end = performance.now() + 100 + random() * 500;
  const isEmpty = random() < 0.17;
  while (performance.now() < end && !isOver()) {
    for (let count = isEmpty ? 0 : random() * 60; count > 0 && !isOver(); count--) await write(lineOf(written++));
    await pause(random() * 8);
  }
};

// ── logrotate ───────────────────────────────────────────────────────────────────────────────────────────────────────

const withLogrotate = async () => {
  const reopened = join(side, "reopened");
  const config = join(side, "logrotate.conf");
  // The old file is let go before logrotate goes on to compress it, as `systemctl reload` does in real configurations.
  const reload = `postrotate\nkill -USR1 ${process.pid}\nwhile [ ! -e ${reopened} ]; do sleep 0.01; done\nendscript`;
  writeFileSync(config, `${path} {\nrotate 9999\n${rules.join("\n")}\n${isCopied ? "" : reload}\n}\n`, { mode: 0o600 });
  let file;
  const reopen = () => {
    if (file !== undefined) closeSync(file);
    file = openSync(path, "a");
    head();
  };
  const head = () => {
    if (header !== "" && fstatSync(file).size === 0) writeSync(file, header);
  };
  process.on("SIGUSR1", () => {
    reopen();
    writeFileSync(reopened, "");
  });
  const rotate = async () => {
    if (existsSync(reopened)) unlinkSync(reopened);
    const child = spawn("/usr/sbin/logrotate", ["-f", "-s", join(side, "state"), config], { stdio: ["ignore", 1, 2] });
    const ended = new Promise((resolve) => child.on("close", resolve));
    let isEnded = false;
    void ended.then(() => (isEnded = true));
    // The kernel would lose what is written between the copy and the cut.
    while (!isCopied && !isEnded && !isOver()) {
      writeSync(file, `${lineOf(written++)}\n`);
      await pause(1);
    }
    const code = await ended;
    if (code !== 0) throw new Error(`logrotate ended with ${code}`);
    head();
  };
  const write = (line) => void writeSync(file, `${line}\n`);
  reopen();
  await begin(write);
  while (!isOver()) {
    await period(write);
    // logrotate fails where the name of this second is there.
    if (rules.includes("dateext")) await pause(1_100);
    await rotate();
  }
};

// ── loggers ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const maxBytes = 24_576;
/** No logger writes a header by itself: this is called when it has opened a file or is about to, before it writes to the file. */
const headOf = (file) => {
  if (header !== "" && !statSync(file, { throwIfNoEntry: false })?.size) appendFileSync(file, header);
};
/** Writes with a function that resolves when the logger takes more. */
const withLogger = async (write) => {
  await begin(write);
  while (!isOver()) await period(write);
};

const withWinston = async (opens, makeTransport) => {
  const { default: winston } = await import("winston");
  const transport = await makeTransport(winston);
  transport.on(opens, headOf);
  const logger = winston.createLogger({
    format: winston.format.printf(({ message }) => message),
    transports: [transport],
  });
  await withLogger(async (line) => {
    if (!logger.write({ level: "info", message: line })) await new Promise((resolve) => logger.once("drain", resolve));
  });
  await new Promise((resolve) => {
    transport.once("finish", () => setTimeout(resolve, 1_000));
    logger.end();
  });
};

const writers = {
  logrotate: withLogrotate,
  winston: () =>
    withWinston(
      "open",
      ({ transports }) => new transports.File({ filename: path, maxsize: maxBytes, maxFiles: 2_000, tailable: true }),
    ),
  "winston-daily": () =>
    withWinston("new", async () => {
      const { default: Daily } = await import("winston-daily-rotate-file");
      return new Daily({
        dirname: directory,
        filename: "app-%DATE%.log",
        datePattern: "YYYY-MM-DD-HH-mm",
        maxSize: 200_000,
        zippedArchive: true,
        auditFile: join(side, "audit.json"),
        createSymlink: true,
        symlinkName: "current.log",
      });
    }),
  "pino-roll": async () => {
    const { default: roll } = await import("pino-roll");
    const stream = await roll({ file: join(directory, "app"), extension: ".log", size: "24k", symlink: true });
    const head = () => headOf(stream.file);
    if (stream.file) head();
    stream.on("ready", head);
    await withLogger(async (line) => {
      if (!stream.write(`${line}\n`)) await new Promise((resolve) => stream.once("drain", resolve));
    });
    await new Promise((resolve) => {
      stream.once("close", resolve);
      stream.end();
    });
  },
  log4js: async () => {
    const { default: log4js } = await import("log4js");
    // log4js has no event for it.
    const { RollingFileWriteStream } = createRequire(createRequire(import.meta.url).resolve("log4js"))("streamroller");
    const renew = RollingFileWriteStream.prototype._renewWriteStream;
    RollingFileWriteStream.prototype._renewWriteStream = function () {
      renew.call(this);
      headOf(this.currentFileStream.path);
    };
    const layout = { type: "messagePassThrough" };
    const file = { type: "file", filename: path, maxLogSize: maxBytes, backups: 2_000, layout };
    log4js.configure({ appenders: { file }, categories: { default: { appenders: ["file"], level: "info" } } });
    const logger = log4js.getLogger();
    await withLogger((line) => logger.info(line));
    await new Promise((resolve) => log4js.shutdown(resolve));
  },
};

await writers[kind]();
writeFileSync(join(side, "written"), String(written));
process.exit();
