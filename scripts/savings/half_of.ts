import { createHash } from "node:crypto";

/** The halves of the recordings: settings are chosen on A and reported on B. */
export type Half = "A" | "B";

/** The half that a group of recordings belongs to, by the first bit of its name's SHA-256. */
export function halfOf(group: string): Half {
  return createHash("sha256").update(group).digest().readUInt8(0) < 128 ? "A" : "B";
}

/** Reads the option `--split`. @throws {RangeError} if it is no half. */
export function readHalf(split: string | undefined): Half | undefined {
  if (split === undefined || split === "A" || split === "B") return split;
  throw new RangeError(`Cannot use --split ${split}: it must be A or B`);
}
