import { estimateTokens } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { memoryArchive } from "@tare/prune";
import type { TareOptions } from "./types.ts";

/** Options that don't depend on what an adapter's calls are. */
export type Options = Omit<TareOptions<never>, "conversation">;

/** The options of an adapter in a test: these, or else the usual ones with an archive of their own. */
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

/** A text that is truncated on arrival. */
export const LONG: string = Array.from({ length: 8_000 }, (_, at) => `line ${at} of a log\n`).join("");

/** Sums up whatever it is asked to. */
export const SUMMARISING: Pick<Options, "planning"> = {
  planning: {
    summarise: () =>
      Promise.resolve({
        text: "All went well.",
        usage: { promptTokens: 9, cachedTokens: 0, outputTokens: 3 },
      }),
  },
};
