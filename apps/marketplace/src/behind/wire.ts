// A proxy between the shop and its Redis, in a process of its own. It can be slowed down and cut.
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
      // Half in each direction: a round trip takes `latencyMs` longer.
      proxy.up.latencyMs = latencyMs / 2;
      proxy.down.latencyMs = latencyMs / 2;
      proxy.refuse = isCut;
      if (isCut) proxy.resetAll();
      return true;
    },
    stop: () => proxy.close(),
  };
});
