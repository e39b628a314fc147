import { groupTurns } from "@tare/context";
import { contentText, countRequestTokens, type CountTokens, type Message } from "@tare/messages";
import { WINDOW_SHARE } from "@tare/planner";
import type { CallPolicyOptions, MakePolicy } from "./policy.ts";

/** Tokens of the summary that a client asks for. */
const SUMMARY_TOKENS = 1_000;

/** Where the client asks for it: at the end of the conversation as last sent, or of a transcript in a new one. */
export type SummaryCall = "cached" | "cold";

/**
 * What a client does by itself: when the prompt takes {@linkcode WINDOW_SHARE} of the window it asks for a summary,
 * and goes on with that in place of all but the operator's messages, the active turn's question and the last step.
 * What the summary says isn't known; its text counts as shown nowhere.
 */
export function compaction(summaryCall: SummaryCall): MakePolicy {
  return ({ countTokens, windowTokens }: CallPolicyOptions) => {
    let summaries: Message[] = [];
    let start = 0;
    let sent: readonly Message[] = [];
    let prefixTokens = 0;
    let counted = 0;
    return {
      view({ messages, tools }) {
        const view = [
          ...messages.slice(0, start).filter(isInstruction),
          ...summaries,
          ...messages.slice(start),
        ];
        counted = countRequestTokens({ messages: view, tools }, countTokens);
        if (counted + prefixTokens <= WINDOW_SHARE * windowTokens) {
          sent = view;
          return { messages: view, tools };
        }
        const asked = summaryCall === "cached"
          ? { messages: [...sent, INSTRUCTION], tools }
          : { messages: [transcript(view)], tools: [] };
        start = startOfRest(messages);
        summaries = [summary(countTokens), ...question(messages, start)];
        const rest = [
          ...messages.slice(0, start).filter(isInstruction),
          ...summaries,
          ...messages.slice(start),
        ];
        counted = countRequestTokens({ messages: rest, tools }, countTokens);
        sent = rest;
        return { messages: rest, tools, aside: { ...asked, outputTokens: SUMMARY_TOKENS } };
      },
      sent({ promptTokens }) {
        prefixTokens = promptTokens - counted;
      },
    };
  };
}

const INSTRUCTION: Message = {
  role: "user",
  content:
    "Summarise this conversation so that the work can go on from the summary alone. Answer with text only.",
};

function isInstruction({ role }: Message): boolean {
  return role === "system" || role === "developer";
}

function transcript(messages: readonly Message[]): Message {
  return { role: "user", content: messages.map((message) => JSON.stringify(message)).join("\n") };
}

/** The last step, or the last message if nothing was called yet. */
function startOfRest(messages: readonly Message[]): number {
  const last = messages.length - 1;
  return messages[last]?.role === "tool" ? messages.findLastIndex(({ role }) => role === "assistant") : last;
}

/** The active turn's user messages, if they stand before the rest. */
function question(messages: readonly Message[], start: number): Message[] {
  const turn = groupTurns(messages).at(-1)?.start ?? 0;
  return messages.slice(turn, start).filter(({ role }) => role === "user");
}

/** A text of so many tokens that says nothing. */
function summary(countTokens: CountTokens): Message {
  let text = "Summary:";
  while (countTokens(text) < SUMMARY_TOKENS) text += " …".repeat(100);
  return { role: "user", content: contentText(text) };
}
