import { countMessageTokens, type CountTokens, countToolTokens } from "@tare/messages";
import type { Recording } from "@tare/simulator/economy";
import { onlyReads } from "../economy/together.ts";

/** What a recorded session's calls that only read, one step after the other, come to. */
export interface Chains {
  /** Model calls of the session, and of these how many stand in a chain. */
  readonly calls: number;
  readonly inChains: number;
  /** How many chains there are: at least two steps in a row, of one turn, that only read. */
  readonly chains: number;
  /** Model calls that fall away if each chain is one program. */
  readonly savedCalls: number;
  /** Sum of all prompts, in tokens: as recorded, and with a program in place of each chain. */
  readonly promptTokens: number;
  /** What the program prints is all that was read. */
  readonly allPrinted: number;
  /** It is what was read last. */
  readonly lastPrinted: number;
}

/**
 * What programs in place of chains of reads would leave of a recorded session's calls and prompts. An estimate, and a
 * bound: nobody knows whether the model could have known the whole chain when it began it, nor what it would have printed.
 * A program is taken for as long as the calls that it stands for.
 */
export function chainsOf(
  { messages, calls, compacted, tools, fixedPrefixTokens = 0 }: Recording,
  countTokens: CountTokens,
): Chains {
  const recorded = new Set(calls.map((call) => call.messages));
  const fixed = fixedPrefixTokens ||
    tools.reduce((sum, tool) => sum + countToolTokens(tool, countTokens), 0);
  const sums = { promptTokens: 0, allPrinted: 0, lastPrinted: 0 };
  let prompt = { recorded: fixed, all: fixed, last: fixed };
  let [chains, inChains] = [0, 0];
  /** The chain that goes on here: its steps, and tokens of its newest results. */
  let chain = { steps: 0, newest: 0 };
  for (let at = 0; at < messages.length; at++) {
    if (compacted.includes(at)) {
      prompt = { recorded: fixed, all: fixed, last: fixed };
      chain = { steps: 0, newest: 0 };
    }
    const message = messages[at]!;
    const tokens = countMessageTokens(message, countTokens);
    const asked = message.role === "assistant" ? message.tool_calls ?? [] : [];
    if (message.role === "assistant") {
      const reads = recorded.has(at) && asked.length > 0 && asked.every(onlyReads) &&
        messages.slice(at + 1, at + 1 + asked.length).every(({ role }) => role === "tool");
      if (!reads || chain.steps === 0) chain = { steps: 0, newest: 0 };
      if (reads && ++chain.steps === 2) {
        chains++;
        inChains++;
      }
      if (chain.steps > 1) inChains++;
      // What the step before has brought needn't stay, now that another one follows.
      if (chain.steps > 1) prompt.last -= chain.newest;
      chain.newest = 0;
      if (recorded.has(at)) {
        sums.promptTokens += prompt.recorded;
        if (chain.steps < 2) {
          sums.allPrinted += prompt.all;
          sums.lastPrinted += prompt.last;
        }
      }
    } else if (message.role === "tool") chain.newest += tokens;
    else chain = { steps: 0, newest: 0 };
    prompt = {
      recorded: prompt.recorded + tokens,
      all: prompt.all + tokens,
      last: prompt.last + tokens,
    };
  }
  return { calls: calls.length, inChains, chains, savedCalls: inChains - chains, ...sums };
}
