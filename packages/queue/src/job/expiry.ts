/** When a job expires that no worker took: `afterMs` after its add, or after `from`, whichever is later. */
export interface Expiry {
  readonly afterMs: number;
  /** In epoch ms of the server's clock. 0: none. */
  readonly from: number;
}

/** In epoch ms of the server's clock. Undefined if the job does not expire. */
export const expiresAt = (addedAt: number, { expires }: { readonly expires: Expiry | undefined }): number | undefined =>
  expires && Math.max(addedAt, expires.from) + expires.afterMs;
