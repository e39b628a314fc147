import type { CountTokens, Message } from "@tare/messages";
import type { PolicyView } from "@tare/simulator/economy";

/** Tokens of the summary that each compaction gets. */
const SUMMARY_TOKENS = 1_000;

/** What a summary is asked of: the conversation as last sent, or what the peer itself sends, which no cache holds. */
export type SummaryCall = "cached" | "cold";

const INSTRUCTION: Message = {
  role: "user",
  content:
    "Summarise this conversation so that the work can go on from the summary alone. Answer with text only.",
};

/** Stands for the model that writes a peer's summaries: they say nothing, and what each would cost is noted. */
export class Summariser {
  readonly #call: SummaryCall;
  readonly #countTokens: CountTokens;
  #sent: PolicyView = { messages: [], tools: [] };
  #asked: Message[] = [];
  #outputTokens = 0;

  constructor(call: SummaryCall, countTokens: CountTokens) {
    this.#call = call;
    this.#countTokens = countTokens;
  }

  /** Answers a peer's request for a summary. */
  answer(question: readonly Message[]): string {
    this.#asked.push(...question);
    this.#outputTokens += SUMMARY_TOKENS;
    let text = "Summary:";
    while (this.#countTokens(text) < SUMMARY_TOKENS) text += " …".repeat(20);
    return text;
  }

  /** The view, with the request for the summary that it needed, if any. */
  charge(view: PolicyView): PolicyView {
    const asked = this.#asked;
    const { messages, tools } = this.#sent;
    const outputTokens = this.#outputTokens;
    this.#asked = [];
    this.#outputTokens = 0;
    this.#sent = view;
    if (asked.length === 0) return view;
    const request = this.#call === "cached"
      ? { messages: [...messages, INSTRUCTION], tools }
      : { messages: asked, tools: [] };
    return { ...view, aside: { ...request, outputTokens } };
  }
}
