import type { MakePolicy } from "@tare/simulator/economy";
import { pruning } from "../ai_sdk.ts";
import { clearing, summarising } from "../langchain.ts";
import { filtering, limiting } from "../mastra.ts";

type Grid = Readonly<Record<string, MakePolicy>>;

/**
 * What each framework ships for the same job as its adapter, in a small grid of settings around those of its defaults
 * and its documentation, by the framework's name and the setting's.
 */
export const OWN_SETTINGS: Readonly<Record<string, Grid>> = {
  "ai-sdk": {
    ...Object.fromEntries([2, 6, 20].map((last) => [
      `pruneMessages: each turn, all calls but those of the last ${last} messages`,
      pruning({ eachTurn: true, ...pruned(last) }),
    ])),
    ...Object.fromEntries([0, 30_000, 100_000].flatMap((overTokens) =>
      [2, 6, 20].map((last) => [
        `pruneMessages: over ${overTokens} tokens, all calls but those of the last ${last} messages`,
        pruning({ overTokens, ...pruned(last) }),
      ])
    )),
  },
  langchain: {
    ...Object.fromEntries(
      [20_000, 50_000, 100_000].flatMap((tokens) =>
        [3, 5, 10].flatMap((messages) =>
          [false, true].map((clearToolInputs) => [
            `clearToolUses: over ${tokens} tokens, all results${
              clearToolInputs ? " and arguments" : ""
            } but ${messages}`,
            clearing({ trigger: { tokens }, keep: { messages }, clearToolInputs }),
          ])
        )
      ),
    ),
    ...Object.fromEntries([20_000, 50_000, 100_000].flatMap((tokens) =>
      [20].map((messages) => [
        `summarization: over ${tokens} tokens, all but ${messages} messages`,
        // As if it were asked on the cached prefix, which LangChain doesn't.
        summarising({ trigger: { tokens }, keep: { messages } }, "cached"),
      ])
    )),
  },
  // In JavaScript the SDK ships nothing that runs without OpenAI's server.
  "openai-agents": {},
  mastra: {
    "ToolCallFilter: the calls of old turns": filtering(),
    ...Object.fromEntries([1, 3, 10].map((filterAfterToolSteps) => [
      `ToolCallFilter: all calls but those of the last ${filterAfterToolSteps} steps`,
      filtering({ filterAfterToolSteps }),
    ])),
    ...Object.fromEntries(
      [40_000, 127_000].flatMap((limit) =>
        (["best-fit", "contiguous"] as const).map((trimMode) => [
          `TokenLimiter: ${limit} tokens, ${trimMode}`,
          limiting({ limit, trimMode }),
        ])
      ),
    ),
  },
};

function pruned(last: number) {
  return { reasoning: "before-last-message", toolCalls: `before-last-${last}-messages` } as const;
}
