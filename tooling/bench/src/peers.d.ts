// redlock 4 comes without types, and redlock 5 does not export its own. Only what is used here.
declare module "redlock4" {
  import type { Redis } from "ioredis";

  interface Settings {
    readonly retryCount?: number;
    readonly retryDelay?: number;
    readonly retryJitter?: number;
  }
  class Redlock {
    constructor(clients: readonly Redis[], settings?: Settings);
    lock(resource: string, ttlMs: number): Promise<{ unlock(): Promise<void> }>;
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
  class Redlock {
    constructor(clients: readonly Redis[], settings?: Settings);
    acquire(resources: readonly string[], durationMs: number): Promise<{ release(): Promise<unknown> }>;
    using<T>(
      resources: readonly string[],
      durationMs: number,
      routine: (signal: AbortSignal) => Promise<T>,
    ): Promise<T>;
  }
  export default Redlock;
}
