import { clusterMembers, type Finding, infoFields } from "@kit/core/toolkit";
import { Refused, type ServerNode } from "../node.js";
import type { Server } from "../server.js";
import { bringBack, type Check, ok, problem, skipped, warning } from "./check.js";

const allSlots = 16_384;

type ClusterMember = ReturnType<typeof clusterMembers>[number];

const addressOf = ({ host, port }: ClusterMember): string => `${host}:${String(port)}`;

/** Each node's own view, since only the two nodes that move a slot report the move. */
const movingOf = async (node: ServerNode): Promise<number> => {
  // A node that does not answer is reported by the others.
  const text = await node.call("CLUSTER", "NODES").catch(() => "");
  const own = clusterMembers(text).find(({ flags }) => flags.includes("myself"));
  return (own?.slots ?? []).filter((slot) => slot.startsWith("[")).length;
};

/** The replies of the nodes that answer; they may differ. @throws the error of the first, if none answers. */
const allOf = async (nodes: Server["nodes"], command: string): Promise<readonly string[]> => {
  const replies = await Promise.allSettled(nodes.map((node) => node.call("CLUSTER", command)));
  const texts = replies.flatMap((reply) => (reply.status === "fulfilled" ? [String(reply.value)] : []));
  const [first] = replies;
  if (texts.length === 0 && first?.status === "rejected") throw first.reason;
  return texts;
};

const masterFindings = async (nodes: Server["nodes"]): Promise<readonly Finding[]> => {
  const [view = ""] = await allOf(nodes, "NODES");
  const members = clusterMembers(view);
  const masters = members.filter(({ flags, slots }) => flags.includes("master") && slots.length > 0);
  const found: Finding[] = [];
  const failing = members.filter(({ flags }) => flags.includes("fail") || flags.includes("fail?"));
  // The others take a while to notice.
  const silent = nodes.filter(
    ({ silence, address }) => silence !== undefined && !failing.some((member) => addressOf(member) === address),
  );
  if (silent.length > 0)
    found.push(problem(`masters that do not answer: ${silent.map(({ address }) => address).join(", ")}`, bringBack));
  if (failing.length > 0)
    found.push(
      problem(
        `nodes that do not answer: ${failing.map(addressOf).join(", ")}`,
        "Restart them, or remove them with CLUSTER FORGET.",
      ),
    );
  const isSpare = ({ flags }: ClusterMember): boolean => flags.includes("slave") && !flags.includes("fail");
  const alone = masters.filter(({ id }) => !members.some((member) => member.masterId === id && isSpare(member)));
  if (alone.length > 0)
    found.push(
      warning(
        `masters without a replica: ${alone.map(addressOf).join(", ")}. If one fails, its slots become unavailable`,
        "Add a replica to each: redis-cli --cluster add-node … --cluster-slave.",
      ),
    );
  const moving = (await Promise.all(nodes.map(movingOf))).reduce((sum, count) => sum + count, 0);
  if (moving > 0)
    found.push(
      warning(
        "slots are migrating: calls to them take longer",
        "Wait until resharding finishes. If it was interrupted, run redis-cli --cluster fix.",
      ),
    );
  return found;
};

export const clusterSlots: Check = {
  id: "cluster-slots",
  async look({ nodes, topology }): Promise<readonly Finding[]> {
    const views = await allOf(nodes, "INFO").catch((error: unknown) => {
      if (error instanceof Error && /cluster support disabled/i.test(error.message)) return undefined;
      throw error;
    });
    if (views === undefined) return [skipped("not a Cluster")];
    const found: Finding[] = [];
    const assigned = Math.min(...views.map((view) => Number(infoFields(view).get("cluster_slots_assigned"))));
    if (assigned < allSlots)
      found.push(
        problem(
          `${String(allSlots - assigned)} of ${String(allSlots)} slots have no node`,
          "Run redis-cli --cluster fix, or CLUSTER ADDSLOTSRANGE on a master.",
        ),
      );
    else if (views.some((view) => infoFields(view).get("cluster_state") !== "ok"))
      found.push(problem("the Cluster reports that it is down", "Restart the masters that do not answer."));
    if (topology !== "cluster")
      found.push(
        problem(
          "this server is a Cluster node, but the address names only this node",
          "Use a Cluster address: redis+cluster://host:port,host:port.",
        ),
      );
    const more = await masterFindings(nodes).catch((error: unknown) => {
      if (error instanceof Refused) return [];
      throw error;
    });
    const all = [...found, ...more];
    return all.length > 0 ? all : [ok(`all ${String(allSlots)} slots are served, and every master has a replica`)];
  },
};
