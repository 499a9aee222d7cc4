// The network link between the shop and its Redis, as a separate process, so that it can be slowed down and cut.
import { FaultProxy } from "@kit/testing";
import { serveMember } from "./member.js";

export interface WireTask {
  readonly port: number;
}

export interface WireFacts {
  readonly url: string;
}

export interface WireCall {
  readonly latencyMs: number;
  readonly isCut: boolean;
}

serveMember(async ({ port }: WireTask, _, before?: WireFacts) => {
  const listenPort = before ? Number(new URL(before.url).port) : 0;
  const proxy = await FaultProxy.start({ port, listenPort });
  return {
    facts: { url: proxy.url } satisfies WireFacts,
    onCall: ({ latencyMs, isCut }: WireCall): boolean => {
      // Half of it on the way there, half on the way back.
      proxy.up.latencyMs = latencyMs / 2;
      proxy.down.latencyMs = latencyMs / 2;
      proxy.refuse = isCut;
      if (isCut) proxy.resetAll();
      return true;
    },
    stop: () => proxy.close(),
  };
});
