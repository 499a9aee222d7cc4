type Listener = (...args: unknown[]) => void;

interface Emitter {
  on(event: string, listener: Listener): unknown;
  off(event: string, listener: Listener): unknown;
}

/** The settings of a single client that are read here. */
interface SingleOptions {
  readonly database?: number | undefined;
  readonly pingInterval?: number | undefined;
  readonly socket?: object | undefined;
}

/** A client of `createClient()`, with the members that are used here. Any copy of node-redis from 5.1 on fits. */
export interface NodeRedisClient extends Emitter {
  readonly isOpen: boolean;
  readonly isReady: boolean;
  /** How often it became ready. */
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

/** A node of a Cluster as node-redis knows it. It has a client from its first connection on. */
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
