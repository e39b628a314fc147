import { checkGiven } from "@tare/messages";
import type { Profile } from "../providers.ts";

/** A session whose length nobody knows yet: so many model calls, with a prompt of so many tokens. */
const CALLS = 30;
const PROMPT_TOKENS = 20_000;

/** How often such a session looks for tools, and how many it is shown each time. */
const FINDS = 3;
const FOUND = 3;

/** Share of the window that definitions may take at most, whatever they cost. */
const MOST_SHARE = 0.1;

/**
 * Whether a session that begins had better not hold these definitions: if carrying them, written once and read with each
 * call, costs more than a session of usual length pays for looking tools up, which is one more call each time, and
 * the definitions found, written and then carried. Where they take over a tenth of the window, in any case.
 */
export function worthDeferring(
  tools: {
    /** Tokens that the definitions take. */
    readonly fullTokens: number;
    /** Tokens of what stands in their place: a list of names, and the tools by which a model sees and calls the rest. */
    readonly shortTokens: number;
    /** How many they are. */
    readonly count: number;
  },
  options: { readonly profile: Pick<Profile, "write" | "read">; readonly windowTokens?: number },
): boolean {
  checkGiven("worthDeferring()", { tools, options }, {
    tools: { fullTokens: "number", shortTokens: "number", count: "number" },
    options: { profile: "object" },
  });
  const { fullTokens, shortTokens, count } = tools;
  const { profile: { write, read }, windowTokens = Infinity } = options;
  const won = fullTokens - shortTokens;
  if (fullTokens > MOST_SHARE * windowTokens) return won > 0;
  const found = FOUND * fullTokens / count;
  const looking = PROMPT_TOKENS * read + found * (write + read * CALLS / 2);
  return won * (write + read * (CALLS - 1)) > FINDS * looking;
}
