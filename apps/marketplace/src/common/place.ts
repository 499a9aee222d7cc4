/** The shop's Redis and the prefix of its keys, passed to every process of the shop. */
export interface Place {
  readonly url: string;
  readonly prefix: string;
}
