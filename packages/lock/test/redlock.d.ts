// redlock 4 comes without types, and redlock 5 does not export its own. Only what is used here.
declare module "redlock4" {
  import type { Redis } from "ioredis";

  interface Settings {
    readonly retryCount?: number;
    readonly retryDelay?: number;
    readonly retryJitter?: number;
  }
  interface Lock {
    readonly expiration: number;
    extend(ttlMs: number): Promise<Lock>;
    unlock(): Promise<void>;
  }
  class Redlock {
    static readonly LockError: typeof Error;
    constructor(clients: readonly Redis[], settings?: Settings);
    lock(resource: string, ttlMs: number): Promise<Lock>;
  }
  export default Redlock;
}

declare module "redlock5" {
  import type { Redis } from "ioredis";

  interface Settings {
    readonly retryCount?: number;
    readonly retryDelay?: number;
    readonly retryJitter?: number;
    readonly automaticExtensionThreshold?: number;
  }
  interface Lock {
    readonly expiration: number;
    extend(durationMs: number): Promise<Lock>;
    release(): Promise<unknown>;
  }
  class Redlock {
    constructor(clients: readonly Redis[], settings?: Settings);
    acquire(resources: readonly string[], durationMs: number): Promise<Lock>;
    using<T>(
      resources: readonly string[],
      durationMs: number,
      routine: (signal: AbortSignal & { readonly error?: Error }) => Promise<T>,
    ): Promise<T>;
  }
  export class ExecutionError extends Error {}
  export default Redlock;
}
