import { PassThrough, Writable } from "node:stream";

/**
 * A stream whose content `send` reads as it is written. It finishes when `send` has resolved, and fails with the error of `send`. If the
 * stream is destroyed, `signal` aborts and the source throws, so that cut content never counts as a whole file.
 */
export const writableTo = (
  send: (source: AsyncIterable<Uint8Array>, signal: AbortSignal) => Promise<unknown>,
): Writable => {
  const controller = new AbortController();
  const source = new PassThrough();
  // If nothing reads the stream any more, its error would be uncaught.
  source.on("error", () => undefined);
  const sent = send(source, controller.signal);
  const stream = new Writable({
    write: (chunk: Uint8Array, encoding, done) => void source.write(chunk, encoding, done),
    final: (done) => {
      source.end();
      sent.then(() => done(), done);
    },
    destroy: (error, done) => {
      const reason = error ?? new Error("The stream was destroyed");
      controller.abort(reason);
      source.destroy(reason);
      done(error);
    },
  });
  sent.catch((error: unknown) => stream.destroy(error as Error));
  return stream;
};
