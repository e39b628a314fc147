import { compactTool } from "@tare/schemas";
import { conversations } from "../conversations.ts";
import { plannerSession, profileNamed, type PromptSessionOptions } from "@tare/planner";
import { policySession } from "@tare/planner/policies";
import { memoryArchive, pruneResults, truncateResults } from "@tare/prune";
import { toolLoopContext } from "@tare/context";
import { loadTokenizer } from "@tare/tiktoken";
import fc from "../cases.ts";
import type { ToolDefinition } from "@tare/messages";

const TOOLS: readonly ToolDefinition[] = ["read", "list"].map((name) => ({
  type: "function",
  function: {
    name,
    description: "Does as it is told. ".repeat(50),
    parameters: {
      type: "object",
      properties: { path: { type: "string", description: "Where it is. ".repeat(20) } },
    },
  },
}));

/** Applies every mechanism to the same conversations, and prints a digest of the results. */
export async function main(): Promise<void> {
  const { count: countTokens } = await loadTokenizer();
  const texts: unknown[] = [compactTool(TOOLS[0]!)];
  for (const messages of fc.sample(conversations(), { numRuns: 150, seed: 7 })) {
    const archive = memoryArchive();
    const options = { archive, countTokens, protectTokens: 50, minBytes: 40 };
    texts.push(await pruneResults(messages, options));
    texts.push(await truncateResults(messages, { ...options, limitTokens: 20 }));
    texts.push(toolLoopContext(messages, { countTokens, historyBudgetTokens: 100 }));
    const ofSession: PromptSessionOptions = {
      profile: profileNamed("anthropic-5m"),
      archive,
      countTokens,
      windowTokens: 2_000,
      // Content that can't fit is sent nevertheless.
      advanced: { assumesWindow: true },
      truncateTokens: 200,
    };
    for (const session of [plannerSession(ofSession), policySession({ ...ofSession, policy: "classic" })]) {
      for (let end = 1; end <= messages.length; end++) {
        if (end < messages.length && messages[end]?.role !== "assistant") continue;
        const history = { messages: messages.slice(0, end), tools: TOOLS };
        texts.push(await session.view(history, { nowMs: end * 60_000 }), session.sent(), session.state);
      }
    }
  }
  const bytes = new TextEncoder().encode(JSON.stringify(texts));
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  // deno-lint-ignore no-console -- One line for the parent process.
  console.log(`${bytes.length} bytes, SHA-256 ${digest.join(" ")}`);
}
