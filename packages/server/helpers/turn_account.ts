import { addLedgers, EMPTY_LEDGER, type RunOptions, type TurnLedger } from "@tare/loop";

/** What a turn has cost so far: its own calls, and those of its helpers while they run. */
export class TurnAccount {
  #own: TurnLedger = EMPTY_LEDGER;
  readonly #helpers = new Map<string, TurnLedger>();

  /** Takes note of what the turn's own calls cost so far, and gives the sum. */
  readonly spent = (own: TurnLedger): TurnLedger => {
    this.#own = own;
    return this.sum;
  };

  /** Takes note of what a helper cost so far. What it kept out of prompts is told by its own session alone. */
  note(helper: string, ledger: TurnLedger): void {
    this.#helpers.set(helper, { ...ledger, saved: {} });
  }

  /** What the helpers cost so far. */
  get helpers(): TurnLedger {
    return [...this.#helpers.values()].reduce(addLedgers, EMPTY_LEDGER);
  }

  /** What all cost so far. */
  get sum(): TurnLedger {
    return addLedgers(this.#own, this.helpers);
  }
}

/** The turn that a helper works for. */
export interface Payer extends Pick<RunOptions, "judge"> {
  /** Takes note of what the helper cost so far. */
  readonly note: (ledger: TurnLedger) => void;
  /** Says which budget of that turn is used up; nothing while there is room. */
  readonly overBudget: () => string | undefined;
}
