// Guilds, one for each category. A user may write to members of the same guild and to recent contacts.
import type { World } from "./index.js";
import { categories } from "./categories.js";

export interface Guild {
  readonly id: string;
  readonly name: string;
}

export const guilds: readonly Guild[] = categories.map(({ id, guild }) => ({ id, name: `Guild of ${guild}` }));

/** Sellers, personas and every third buyer belong to a guild. */
export const guildOf = (user: string, isSeller: boolean, personas: ReadonlySet<string>): Guild | null => {
  const number = Number(user.slice(1));
  if (!isSeller && !personas.has(user) && number % 3 !== 0) return null;
  return guilds[number % guilds.length] ?? null;
};

export const guildMembers = (
  { users }: World,
  personas: ReadonlySet<string>,
): Map<string, { id: string; text: string }[]> => {
  const members = new Map<string, { id: string; text: string }[]>(guilds.map(({ id }) => [id, []]));
  for (const { id, name, isSeller } of users) {
    const guild = guildOf(id, isSeller, personas);
    if (guild) members.get(guild.id)?.push({ id, text: name });
  }
  return members;
};
