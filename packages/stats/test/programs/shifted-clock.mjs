// The wall clock of this process is ahead by as many milliseconds as stand behind the question mark:
//   node --import <this file>?3600000
const aheadMs = Number(new URL(import.meta.url).search.slice(1));
const RealDate = Date;
const now = () => RealDate.now() + aheadMs;

globalThis.Date = class extends RealDate {
  constructor(...args) {
    super(...(args.length === 0 ? [now()] : args));
  }
  static now = now;
};
