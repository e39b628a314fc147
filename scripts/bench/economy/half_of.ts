import { createHash } from "node:crypto";

/** The halves of the recordings: settings are chosen on A and reported on B. */
export type Half = "A" | "B";

/** The half that a group of recordings belongs to, by the first bit of its name's SHA-256. */
export function halfOf(group: string): Half {
  return createHash("sha256").update(group).digest().readUInt8(0) < 128 ? "A" : "B";
}
