/** When a job that no worker took is not run any more: so long after its add, or after `from`, whichever is later. */
export interface Expiry {
  readonly afterMs: number;
  /** In epoch ms of the server's clock; 0: none. */
  readonly from: number;
}

/** In epoch ms of the server's clock; undefined if it does not expire. */
export const expiresAt = (addedAt: number, { expires }: { readonly expires: Expiry | undefined }): number | undefined =>
  expires && Math.max(addedAt, expires.from) + expires.afterMs;
