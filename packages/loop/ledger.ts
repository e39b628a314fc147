import type { Cost } from "@tare/messages";

/**
 * What a turn cost, what its context hook paid included. A figure is in tokens unless it says otherwise. A call that
 * failed or was cancelled is not in it. What the calls cost in token units and in dollars is absent where it isn't known
 * of all of them.
 */
export interface TurnLedger extends Partial<Cost> {
  /** Model calls that were answered, those of the context hook apart. */
  readonly calls: number;
  /** Sum of the prompts, cached tokens included. */
  readonly promptTokens: number;
  /** Of these, served from the provider's cache. */
  readonly cachedTokens: number;
  /** Tokens that the model wrote, reasoning included. */
  readonly outputTokens: number;
  /** Prompt tokens that each mechanism kept out, summed over the calls. */
  readonly saved: Readonly<Record<string, number>>;
  /** True if the provider sent no usage for some call and it was counted here. */
  readonly estimated: boolean;
}

/** The ledger before the first model call. */
export const EMPTY_LEDGER: TurnLedger = {
  calls: 0,
  promptTokens: 0,
  cachedTokens: 0,
  outputTokens: 0,
  saved: {},
  estimated: false,
};

/**
 * The ledger of two stretches of a conversation: of a turn and its next call, of a session and its next turn.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { addLedgers, EMPTY_LEDGER } from "@tare/loop";
 *
 * const turn = { ...EMPTY_LEDGER, calls: 2, saved: { prune: 500 } };
 * assertEquals(addLedgers(turn, turn), { ...EMPTY_LEDGER, calls: 4, saved: { prune: 1000 } });
 * ```
 */
export function addLedgers(a: TurnLedger, b: TurnLedger): TurnLedger {
  const saved = { ...a.saved };
  for (const [mechanism, tokens] of Object.entries(b.saved)) {
    saved[mechanism] = (saved[mechanism] ?? 0) + tokens;
  }
  return {
    calls: a.calls + b.calls,
    promptTokens: a.promptTokens + b.promptTokens,
    cachedTokens: a.cachedTokens + b.cachedTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    saved,
    estimated: a.estimated || b.estimated,
    ...sumKnown("tokenUnits", a, b),
    ...sumKnown("usd", a, b),
  };
}

/** What both cost; nothing if one took tokens and it isn't known what they cost. */
function sumKnown(unit: keyof Cost, a: TurnLedger, b: TurnLedger): Partial<Cost> {
  let sum: number | undefined;
  for (const ledger of [a, b]) {
    if (ledger.promptTokens + ledger.outputTokens === 0) continue;
    const cost = ledger[unit];
    if (cost === undefined) return {};
    sum = (sum ?? 0) + cost;
  }
  return sum === undefined ? {} : { [unit]: sum };
}
