/** A log and the program that rotates it. */
export interface Configuration {
  readonly name: string;
  /** The writer in `writer.mjs`. */
  readonly kind: string;
  /** Lines of the configuration of logrotate. */
  readonly rules: readonly string[];
  /** Whether the file is copied and cut: such a log cannot be followed. */
  readonly isCopied: boolean;
  /** What each file begins with; empty: nothing. */
  readonly header: string;
  /** All names of the log. */
  readonly match: string;
  /** The name that is followed. */
  readonly live: string;
  readonly rotated: string;
}

const plain = { isCopied: false, rules: [], header: "", match: "^app", live: "app.log" };
const names = { match: String.raw`^app\.log`, rotated: String.raw`^app\.log[.-]` };
// One file a second: logrotate makes no second one of the same name.
const dated = ["create", "compress", "dateext", "dateformat -%Y%m%d-%s"];

const logrotate = (
  [
    ["create", ["create"]],
    ["create+compress+delaycompress", ["create", "compress", "delaycompress"]],
    ["create+compress", ["create", "compress"]],
    ["copytruncate", ["copytruncate"]],
    ["copytruncate+compress", ["copytruncate", "compress"]],
    ["dateext+compress", dated],
  ] as const
).flatMap(([name, rules]): Configuration[] => {
  const own = { ...plain, ...names, kind: "logrotate", rules, isCopied: name.startsWith("copy") };
  return [
    { ...own, name: `logrotate ${name}` },
    { ...own, name: `logrotate ${name}, header`, header: "# date time client request status bytes\n" },
  ];
});

/** Of 150 columns, longer than a KiB. */
const longHeader = `#${Array.from({ length: 150 }, (_, column) => `column_${String(column)}`).join()}\n`;

const loggers = (
  [
    ["winston", { kind: "winston", rotated: String.raw`^app\d+\.log$` }],
    [
      "winston-daily-rotate-file",
      { kind: "winston-daily", live: "current.log", rotated: String.raw`^app-.*\.log(\.\d+)?(\.gz)?$` },
    ],
    ["pino-roll", { kind: "pino-roll", live: "current.log", rotated: String.raw`^app\.\d+\.log$` }],
    ["log4js", { ...names, kind: "log4js" }],
  ] as const
).flatMap(([name, own]): Configuration[] => [
  { ...plain, ...own, name },
  { ...plain, ...own, name: `${name}, header`, header: longHeader },
]);

/** Every configuration. */
export const configurations: readonly Configuration[] = [...logrotate, ...loggers];
