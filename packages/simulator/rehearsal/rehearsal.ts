import { type SimulatedModel, type SimulatedReply, toolCall } from "../model.ts";
import { KEYWORDS } from "./keywords.ts";
import { LARGEST_PACKAGE } from "./packages.ts";
import { LOOK_BACK, REVIEW } from "./review.ts";
import type { RehearsalPlan } from "./plan.ts";
import { readRehearsalTurn, RECALL, type RehearsalTurn, type WantedCall } from "./turn.ts";

/** The first plan that suits a question is followed. */
const PLANS: readonly RehearsalPlan[] = [REVIEW, LOOK_BACK, LARGEST_PACKAGE, KEYWORDS];

const KNOWN_TOOLS = ["list_files", "read_file", "search_files"];

const INTRODUCTION = "I am a rehearsal model: I only follow fixed rules and understand nothing.";

/**
 * A model without intelligence, to rehearse with: it follows fixed rules. It lists, searches and reads with the
 * tools `list_files`, `search_files` and `read_file`, as far as they are offered, several calls at a time, and
 * then reports facts that it computed from what its prompt shows. It remembers nothing: each reply depends on
 * the request alone. Every answer begins by saying what it is.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { rehearsal } from "@tare/simulator";
 *
 * const tool = { type: "function", function: { name: "list_files" } } as const;
 * const reply = await rehearsal()({
 *   model: "rehearsal",
 *   messages: [{ role: "user", content: "Where are prompts counted?" }],
 *   tools: [tool],
 * });
 * assertEquals(reply.tool_calls?.map((call) => call.function.name), ["list_files"]);
 * ```
 */
export function rehearsal(): SimulatedModel {
  return ({ messages, tools }) => {
    const turn = readRehearsalTurn(messages, tools);
    if (turn.question.trim() === "") return { content: `${INTRODUCTION} I was asked nothing.` };
    if (KNOWN_TOOLS.some((tool) => turn.offers(tool))) return nextReply(turn);
    const offered = tools.map((tool) => tool.function.name).join(", ") || "none";
    return {
      content: `${INTRODUCTION} I looked at nothing: of the tools that I know (${KNOWN_TOOLS.join(", ")}) ` +
        `none is offered. Offered: ${offered}.`,
    };
  };
}

function nextReply(turn: RehearsalTurn): SimulatedReply {
  const plan = PLANS.find(({ suits }) => suits(turn.question)) ?? KEYWORDS;
  const recalls = missingOriginals(turn, plan);
  if (recalls.length > 0) return calling("I recall what is no longer here whole.", recalls);
  for (const rule of plan.rules) {
    if (turn.calls.some(rule.made)) continue;
    const calls = rule.wants(turn).filter((call) => turn.offers(call.tool));
    const { says } = rule;
    if (calls.length > 0) return calling(typeof says === "string" ? says : says(turn), calls);
  }
  const facts = plan.answer(turn);
  return {
    content: `${INTRODUCTION} All that follows is computed from ${
      plan.from ?? "tool results of this turn"
    }.\n\n${facts}`,
  };
}

/** Calls for what the answer needs and the prompt no longer shows whole, each asked for once. */
function missingOriginals({ calls, offers }: RehearsalTurn, { needs }: RehearsalPlan): WantedCall[] {
  if (!offers(RECALL, "ref")) return [];
  const asked = new Set(calls.filter((call) => call.tool === RECALL).map((call) => call.args.ref));
  const missing = calls.filter((call) => needs(call) && call.seen !== "whole").map((call) => call.ref);
  return [...new Set(missing)]
    .filter((ref) => ref !== undefined && !asked.has(ref))
    .map((ref) => ({ tool: RECALL, args: { ref } }));
}

function calling(says: string, calls: readonly WantedCall[]): SimulatedReply {
  return { content: says, tool_calls: calls.map(({ tool, args }) => toolCall(tool, args)) };
}
