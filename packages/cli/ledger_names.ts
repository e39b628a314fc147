import type { Mechanisms } from "@tare/planner";
import type { ResponseOf } from "../server/client.ts";

/** User-facing names of the ledger's mechanisms. */
export const MECHANISM_NAMES: Readonly<Record<keyof Mechanisms, string>> = {
  context: "old turns",
  prune: "old results",
  truncate: "huge results",
  references: "duplicates",
  normalization: "normalization",
  schemas: "tool descriptions",
};

/** User-facing names of the states of prompt blocks. */
export const STATE_NAMES: Readonly<
  Record<ResponseOf<"GET /sessions/{id}/prompt">["blocks"][number]["state"], string>
> = {
  visible: "visible",
  deduplicated: "deduplicated",
  replaced: "evicted",
  truncated: "truncated",
  summarized: "summarized",
  evicted: "evicted with its turn",
  compact: "compact",
};
