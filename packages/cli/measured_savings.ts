/** Costs with each provider's prices, where resending everything costs 1. */
interface MeasuredCosts {
  readonly withoutRefetches: number;
  /** With refetches charged three times. */
  readonly cost: number;
  /** The same for the session with the highest cost. */
  readonly worst: number;
  /** Share of the edits whose old text was evicted. */
  readonly lostEdits: number;
}

/** The planner on 47 coding sessions that were not used to choose its settings, measured independently. */
export const UNSEEN_COSTS: Readonly<Record<"Anthropic" | "OpenAI" | "DeepSeek", MeasuredCosts>> = {
  Anthropic: { withoutRefetches: 0.629, cost: 0.682, worst: 1.07, lostEdits: 0.056 },
  OpenAI: { withoutRefetches: 0.651, cost: 0.704, worst: 1.2, lostEdits: 0.049 },
  DeepSeek: { withoutRefetches: 0.773, cost: 0.857, worst: 2.58, lostEdits: 0.052 },
};

/** The same for 40 of these, of Claude Code, relative to what their users paid: the client compacts. */
export const UNSEEN_BILL = { withoutRefetches: 0.84, cost: 0.9, longest: 1 } as const;

const FRACTIONS = [
  [0, "nothing"],
  [1 / 10, "a tenth"],
  [1 / 7, "a seventh"],
  [1 / 5, "a fifth"],
  [1 / 4, "a quarter"],
  [3 / 10, "three tenths"],
  [2 / 5, "two fifths"],
] as const;

/** Returns the largest fraction in words that a saving reaches, within rounding. */
export function savingInWords(cost: number): string {
  const reached = FRACTIONS.filter(([fraction]) => fraction <= 1 - cost + ROUNDING);
  return reached.at(-1)?.[1] ?? "nothing";
}

const ROUNDING = 0.005;

/** The saving that Tare promises, for texts that end a command. */
export function savingPromise(): string {
  const { Anthropic, OpenAI, DeepSeek } = UNSEEN_COSTS;
  const most = savingInWords(Math.max(Anthropic.cost, OpenAI.cost));
  return `about ${most} of the cost of resending everything at Anthropic's and OpenAI's prices, ${
    savingInWords(DeepSeek.cost)
  } at DeepSeek's; about ${
    savingInWords(UNSEEN_BILL.cost)
  } of a real Claude Code bill; nothing in short sessions`;
}
