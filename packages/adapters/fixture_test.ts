import { estimateTokens } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { memoryArchive } from "@tare/prune";
import type { TareOptions } from "./types.ts";

/** Options independent of an adapter's call type. */
export type Options = Omit<TareOptions<never>, "conversation">;

export function optionsWith(options: Options = {}): Options {
  return {
    profile: profileNamed("openai"),
    archive: memoryArchive(),
    countTokens: estimateTokens,
    now: () => 0,
    warn: () => {},
    ...options,
  };
}

/** A text that is truncated at ingestion. */
export const LONG: string = Array.from({ length: 8_000 }, (_, at) => `line ${at} of a log\n`).join("");

/** Returns a fixed summary. */
export const SUMMARISING: Pick<Options, "planning"> = {
  planning: {
    summarize: () =>
      Promise.resolve({
        text: "All went well.",
        usage: { promptTokens: 9, cachedTokens: 0, outputTokens: 3 },
      }),
  },
};
