import { integer, type Rule } from "@kit/core/toolkit";

/** The limit of priorities. Beyond it the scores of two priorities would overlap. */
const maxPriority = 2 ** 20 - 1;

/** The priority of a job: lower runs first. */
export const priority: Rule<number, number> = integer(-maxPriority, maxPriority, 0);
