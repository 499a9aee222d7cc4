/** The settings of a single client that are read here. */
interface SingleOptions {
  readonly RESP?: number | undefined;
  readonly database?: number | undefined;
  readonly socket?: object | undefined;
  readonly commandOptions?: object | undefined;
}

/** A client of `createClient()`, with the members that are used here. Any copy of node-redis 5 or 6 fits. */
export interface NodeRedisClient {
  readonly isOpen: boolean;
  readonly isReady: boolean;
  readonly isPubSubActive: boolean;
  /** How often it became ready. */
  readonly socketEpoch: number;
  readonly options?: SingleOptions;
  connect(): Promise<unknown>;
  destroy(): void;
  unref(): void;
  duplicate(...overrides: never[]): unknown;
  sendCommand(args: string[], ...options: never[]): Promise<unknown>;
  subscribe(channel: string, listener: (message: string, channel: string) => void): Promise<void>;
  unsubscribe(channel: string): Promise<void>;
  on(event: string, listener: (...args: unknown[]) => void): unknown;
  off(event: string, listener: (...args: unknown[]) => void): unknown;
}
