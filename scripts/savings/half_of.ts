import { createHash } from "node:crypto";

/** Half of the recordings: settings are chosen on A and reported on B. */
export type Half = "A" | "B";

/** Returns a group's half, by the first bit of its name's SHA-256. */
export function halfOf(group: string): Half {
  return createHash("sha256").update(group).digest().readUInt8(0) < 128 ? "A" : "B";
}

/** Reads the option `--split`. @throws {RangeError} if it is neither A nor B. */
export function readHalf(split: string | undefined): Half | undefined {
  if (split === undefined || split === "A" || split === "B") return split;
  throw new RangeError(`Cannot use --split ${split}: use A or B.`);
}
