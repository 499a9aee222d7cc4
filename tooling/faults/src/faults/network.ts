import type { Lab } from "../lab/lab.js";
import { grows } from "../lab/waits.js";
import { dropPackets, droppedPackets, noFirewall, passPackets } from "../lab/network.js";
import type { Injection, Fault } from "./fault.js";

type Side = "up" | "down";

/** The link swallows sent bytes. It took effect if bytes were lost. */
const swallow = (lab: Lab, ...sides: readonly Side[]): Injection => {
  const before = lab.proxy.stats.droppedBytes;
  for (const side of sides) lab.proxy[side].hole = true;
  let lost = 0;
  return {
    lastsMs: lab.outageMs(),
    heal: () => {
      lost = lab.proxy.stats.droppedBytes - before;
      lab.proxy.heal();
    },
    tookEffect: () => lost > 0,
  };
};

const dropping = (lab: Lab, ...sides: readonly ("sport" | "dport")[]): Injection => {
  dropPackets(lab.proxy.port, ...sides);
  let dropped = 0;
  return {
    lastsMs: lab.outageMs(),
    heal: () => {
      dropped = droppedPackets();
      passPackets();
    },
    tookEffect: () => dropped > 0,
  };
};

const slowed = (lab: Lab, slow: () => void): Injection => {
  const before = lab.proxy.stats.slowedChunks;
  slow();
  return {
    until: () => grows(() => lab.proxy.stats.slowedChunks, before + 20),
    lastsMs: lab.outageMs(),
    heal: () => lab.proxy.heal(),
    tookEffect: () => lab.proxy.stats.slowedChunks > before,
  };
};

const cut = (lab: Lab, begin: () => void): Injection => {
  const before = lab.proxy.stats.resets;
  begin();
  return {
    until: () => grows(() => lab.proxy.stats.resets, before),
    tookEffect: () => lab.proxy.stats.resets > before,
  };
};

/** Faults of the link between workers and server. */
export const networkFaults: readonly Fault[] = [
  { kind: "link cut", setting: "kept", inject: async (lab) => swallow(lab, "up", "down") },
  {
    kind: "packets dropped",
    setting: "kept",
    whyNot: noFirewall,
    inject: async (lab) => dropping(lab, "dport", "sport"),
  },
  {
    kind: "link cut one way",
    setting: "kept",
    inject: async (lab) => swallow(lab, lab.random() < 0.5 ? "up" : "down"),
  },
  {
    kind: "packets dropped one way",
    setting: "kept",
    whyNot: noFirewall,
    inject: async (lab) => dropping(lab, "sport"),
  },
  {
    kind: "replies lost",
    setting: "kept",
    inject: async (lab) => {
      // The tap repeats requests as well: both copies must get the same reply.
      lab.tap.copies = 1;
      const injection = cut(lab, () => (lab.proxy.down.cutNext = 1 + Math.floor(lab.random() * 5)));
      return { ...injection, heal: () => void (lab.tap.copies = 0) };
    },
  },
  {
    kind: "slow link",
    setting: "kept",
    inject: async (lab) =>
      slowed(lab, () => {
        for (const side of ["up", "down"] as const)
          Object.assign(lab.proxy[side], { latencyMs: lab.between(1, 30), jitterMs: lab.between(0, 30) });
      }),
  },
  {
    kind: "frames in slices",
    setting: "kept",
    inject: async (lab) =>
      slowed(lab, () => {
        for (const side of ["up", "down"] as const) lab.proxy[side].sliceBytes = 1 + Math.floor(lab.random() * 7);
      }),
  },
  {
    kind: "frames torn",
    setting: "kept",
    inject: async (lab) =>
      cut(lab, () => (lab.proxy[lab.random() < 0.5 ? "up" : "down"].cutAfterBytes = Math.floor(lab.random() * 2_000))),
  },
  {
    kind: "requests repeated",
    setting: "kept",
    inject: async (lab) => {
      const { tap } = lab;
      const before = tap.echoes.length;
      tap.copies = 1 + Math.floor(lab.random() * 4);
      return {
        until: () => grows(() => tap.echoes.length, before + 20),
        lastsMs: lab.outageMs(),
        heal: () => void (tap.copies = 0),
        tookEffect: () => tap.echoes.length > before,
      };
    },
  },
];
