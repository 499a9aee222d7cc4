/** The shop's Redis and the prefix of its keys; every process of the shop gets them. */
export interface Place {
  readonly url: string;
  readonly prefix: string;
}
