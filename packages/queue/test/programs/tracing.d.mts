/** A span that has ended. */
export interface EndedSpan {
  readonly name: string;
  readonly kind: number;
  readonly code: number;
  readonly attributes: object;
  readonly id: string;
  readonly trace: string;
  readonly parent: string | undefined;
}

export const tracing: () => {
  readonly api: { readonly context: { disable(): void } };
  readonly tracer: {
    startActiveSpan<T>(name: string, run: (span: { end(): void }) => T): T;
  };
  readonly spans: () => EndedSpan[];
};
