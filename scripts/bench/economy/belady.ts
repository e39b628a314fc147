import type { Message } from "@tare/messages";
import { type Edit, KEEP_WANTED, view } from "@tare/planner";
import { memoryArchive } from "@tare/prune";
import { placedView } from "../../../packages/planner/edits/view.ts";
import type { Plan } from "../../../packages/planner/rule/plan.ts";
import { Planner } from "../../../packages/planner/rule/planner.ts";
import type { Policy, PolicyOptions } from "./policy.ts";
import { callWords, messageWords } from "./words.ts";

/**
 * Rewrites when `planner` does, and what it does, but the names that stay are chosen knowing the future: those that
 * the session refers to again, soonest first (Belady 1966), for no more tokens than the planner's own choice takes.
 * What it loses is the least that retention could lose at that cost.
 */
export function belady(options: PolicyOptions): Policy {
  const { recording, profile, windowTokens, countTokens } = options;
  const uses = findUses(options);
  const planner = new Planner({
    profile,
    windowTokens,
    countTokens,
    archive: memoryArchive(),
    retention: KEEP_WANTED,
    isError: (_, index) => recording.errors.has(index),
  });
  const edits: Edit[] = [];
  let plan: Plan | undefined;
  return {
    async view(call) {
      plan = await planner.plan({ ...call, recall: true, edits });
      const added = chooseNames(plan, { ...options, uses });
      if (added !== plan.edits) {
        plan = { ...plan, edits: added, view: placedView(call, [...edits, ...added]) };
      }
      edits.push(...added);
      return plan.view;
    },
    sent(usage) {
      if (plan) planner.sent(plan, usage);
    },
  };
}

/** The calls, by position of the answer, that refer to each word; in order. */
function findUses({ recording: { messages } }: PolicyOptions): ReadonlyMap<string, readonly number[]> {
  const uses = new Map<string, number[]>();
  for (const [index, message] of messages.entries()) {
    if (message.role !== "assistant") continue;
    for (const call of message.tool_calls ?? []) {
      for (const word of callWords(call)) {
        const its = uses.get(word);
        if (its) its.push(index);
        else uses.set(word, [index]);
      }
    }
  }
  return uses;
}

function chooseNames(
  plan: Plan,
  { countTokens, uses }: PolicyOptions & { readonly uses: ReadonlyMap<string, readonly number[]> },
): readonly Edit[] {
  if (plan.edits.length === 0) return plan.edits;
  let budget = 0;
  const bare = plan.edits.map((edit): Edit => {
    if (edit.type === "compact") return edit;
    const [line = "", ...names] = edit.text.split("\n");
    budget += countTokens(names.join("\n"));
    return { ...edit, text: line };
  });
  const before = view(plan.request, plan.request.edits).messages;
  const left = new Set(wordsOf(before));
  for (const word of wordsOf(view(plan.request, [...plan.request.edits, ...bare]).messages)) {
    left.delete(word);
  }
  const now = plan.request.messages.length;
  const nextUse = (word: string) => uses.get(word)?.find((index) => index >= now) ?? Infinity;
  const names: string[] = [];
  for (const word of [...left].sort((a, b) => nextUse(a) - nextUse(b))) {
    if (nextUse(word) === Infinity) break;
    budget -= countTokens(` ${word}`);
    if (budget < 0) break;
    names.push(word);
  }
  // They may stand anywhere behind the first edit: the lines are read together.
  const last = bare.findLastIndex((edit) => edit.type !== "compact");
  return bare.map((edit, at) =>
    at === last && edit.type !== "compact" && names.length > 0
      ? { ...edit, text: `${edit.text}\n${names.join(" ")}` }
      : edit
  );
}

function wordsOf(messages: readonly Message[]): string[] {
  return messages.flatMap((message) => [...messageWords(message)]);
}
