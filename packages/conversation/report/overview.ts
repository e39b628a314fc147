/** What calls came to, beside resending everything. */
export interface Sums {
  readonly calls: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
  /** Prompt tokens that were kept out, summed over the calls. */
  readonly savedTokens: number;
  /** What the prompts cost, in token units. */
  readonly tokenUnits: number;
  /** What resending everything would have cost; of calls for which no ledger is kept what they did cost. */
  readonly resendTokenUnits: number;
  /** The same in US dollars, replies included, as far as prices are known. */
  readonly usd: number;
  readonly resendUsd: number;
  /** Calls whose price isn't known, so that no dollars are counted for them. */
  readonly unpricedCalls: number;
}

/** Nothing was called. */
export const NO_SUMS: Sums = {
  calls: 0,
  promptTokens: 0,
  cachedTokens: 0,
  outputTokens: 0,
  savedTokens: 0,
  tokenUnits: 0,
  resendTokenUnits: 0,
  usd: 0,
  resendUsd: 0,
  unpricedCalls: 0,
};

/** A sentence for people, and where it came up. */
export interface ToldWarning {
  readonly at: string;
  readonly session: string;
  readonly message: string;
}

/** What was saved, and how planned sessions do beside those that are left as they are. */
export interface Overview {
  /** Of the day that it is now, by UTC. */
  readonly today: Sums;
  /** Of all sessions that are kept. */
  readonly all: Sums;
  /** Of these, those that are planned, and those that are left as they are, each with how many there are. */
  readonly groups: Readonly<Record<"planned" | "control", Sums & { readonly sessions: number }>>;
  /** The newest since the start of the server, the newest first. */
  readonly warnings: readonly ToldWarning[];
}

/** What two parts saved, as one. Warnings stand newest first. */
export function addOverviews(a: Overview, b: Overview): Overview {
  const group = (name: keyof Overview["groups"]) => ({
    ...addSums(a.groups[name], b.groups[name]),
    sessions: a.groups[name].sessions + b.groups[name].sessions,
  });
  return {
    today: addSums(a.today, b.today),
    all: addSums(a.all, b.all),
    groups: { planned: group("planned"), control: group("control") },
    warnings: [...a.warnings, ...b.warnings].sort((one, other) => one.at < other.at ? 1 : -1)
      .slice(0, MAX_WARNINGS),
  };
}

/** Both together. */
export function addSums(a: Sums, b: Partial<Sums>): Sums {
  const sum: { -readonly [Name in keyof Sums]: number } = { ...a };
  for (const name of Object.keys(NO_SUMS) as (keyof Sums)[]) sum[name] += b[name] ?? 0;
  return sum;
}

/** So many warnings are kept. */
const MAX_WARNINGS = 100;

/** The newest warnings, one of each in a session. */
export class ToldWarnings {
  #told: readonly ToldWarning[] = [];

  /** The newest first. */
  get list(): readonly ToldWarning[] {
    return this.#told;
  }

  /** Takes another. */
  add(warning: ToldWarning): void {
    const { session, message } = warning;
    const others = this.#told.filter((one) => one.session !== session || one.message !== message);
    this.#told = [warning, ...others].slice(0, MAX_WARNINGS);
  }
}
