/** Where the shop is: its Redis, and what all of its keys begin with. Every process of the shop is told this. */
export interface Place {
  readonly url: string;
  readonly prefix: string;
}
