import type { CountTokens, Message } from "@tare/messages";
import type { PolicyView } from "@tare/simulator/economy";

const SUMMARY_TOKENS = 1_000;

/** Prompt of a summary: the conversation as last sent, or the peer's own uncached request. */
export type SummaryCall = "cached" | "cold";

const INSTRUCTION: Message = {
  role: "user",
  content:
    "Summarize this conversation so that the work can go on from the summary alone. Answer with text only.",
};

/** Mock of the model that writes a peer's summaries: they are empty, and their cost is recorded. */
export class Summarizer {
  readonly #call: SummaryCall;
  readonly #countTokens: CountTokens;
  #sent: PolicyView = { messages: [], tools: [] };
  #history: Message[] = [];
  #outputTokens = 0;

  constructor(call: SummaryCall, countTokens: CountTokens) {
    this.#call = call;
    this.#countTokens = countTokens;
  }

  answer(question: readonly Message[]): string {
    this.#history.push(...question);
    this.#outputTokens += SUMMARY_TOKENS;
    let text = "Summary:";
    while (this.#countTokens(text) < SUMMARY_TOKENS) text += " …".repeat(20);
    return text;
  }

  charge(view: PolicyView): PolicyView {
    const history = this.#history;
    const { messages, tools } = this.#sent;
    const outputTokens = this.#outputTokens;
    this.#history = [];
    this.#outputTokens = 0;
    this.#sent = view;
    if (history.length === 0) return view;
    const request = this.#call === "cached"
      ? { messages: [...messages, INSTRUCTION], tools }
      : { messages: history, tools: [] };
    return { ...view, aside: { ...request, outputTokens } };
  }
}
