type Listener = (...args: unknown[]) => void;

interface Emitter {
  on(event: string, listener: Listener): unknown;
  off(event: string, listener: Listener): unknown;
}

/** The settings of a single client that kit reads. */
interface SingleOptions {
  readonly database?: number | undefined;
  readonly pingInterval?: number | undefined;
  readonly socket?: object | undefined;
}

/** A client of `createClient()`, with the members that kit uses. Any copy of node-redis 5.1 or later fits. */
export interface NodeRedisClient extends Emitter {
  readonly isOpen: boolean;
  readonly isReady: boolean;
  /** How often the client became ready. */
  readonly socketEpoch: number;
  readonly options?: SingleOptions | undefined;
  connect(): Promise<unknown>;
  destroy(): void;
  unref(): void;
  duplicate(...overrides: never[]): unknown;
  sendCommand(args: string[], ...options: never[]): Promise<unknown>;
  subscribe(channel: string, listener: (message: string, channel: string) => void): Promise<void>;
  unsubscribe(channel: string): Promise<void>;
}

/** A node of a Cluster in node-redis. It has a client after its first connection. */
export interface ClusterNode {
  readonly host: string;
  readonly port: number;
  readonly client?: unknown;
}

/** A client of `createCluster()`. */
export interface NodeRedisCluster extends Emitter {
  readonly isOpen: boolean;
  readonly masters: ClusterNode[];
  readonly replicas: ClusterNode[];
  /** The node of each slot. */
  readonly slots: { readonly master: ClusterNode }[];
  connect(): Promise<unknown>;
  destroy(): void;
  duplicate(...overrides: never[]): unknown;
  nodeClient(...node: never[]): unknown;
}

/** A client of `createSentinel()`. */
export interface NodeRedisSentinel extends Emitter {
  readonly isOpen: boolean;
  connect(): Promise<unknown>;
  destroy(): Promise<unknown>;
  duplicate?(...overrides: never[]): unknown;
  getMasterNode(): { readonly host: string; readonly port: number } | undefined;
}
