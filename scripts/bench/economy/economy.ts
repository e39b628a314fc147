import type { CountTokens } from "@tare/messages";
import type { Profile } from "@tare/planner";
import { WINDOW_SHARE } from "@tare/planner";
import { POLICIES } from "./policies.ts";
import type { Recording } from "./recording.ts";
import { type Replay, replay } from "./replay.ts";

/** Recorded sessions of one source. */
export interface Data {
  readonly name: string;
  readonly recordings: readonly Recording[];
  /** Lines of the source that can't be replayed. */
  readonly skipped: number;
}

/** How a policy does on one source at one provider. */
export interface EconomyResult {
  readonly data: string;
  readonly profile: string;
  readonly policy: string;
  readonly sessions: number;
  readonly skipped: number;
  readonly calls: number;
  /** Cost of all sessions, against resending everything and against the clairvoyant. */
  readonly costVsResend: number;
  readonly costVsOptimum: number;
  /** The worst single session of those that fit the window whole; 1 if there is none. */
  readonly worstVsResend: number;
  /** Prompt tokens, against resending everything. */
  readonly promptVsResend: number;
  /** Share of the prompt tokens that the cache served. */
  readonly hitRate: number;
  readonly epochs: number;
  /** Share of the references that the view showed nowhere, and of the tool calls that had one. */
  readonly lostReferences: number;
  readonly callsWithLostReference: number;
}

/**
 * The models' windows, in tokens, that the benchmark assumes: what a prompt and its answer may take. A local server's
 * is a matter of its memory; it is taken to be large enough for every recorded session.
 */
const WINDOWS: Readonly<Record<string, number>> = {
  openai: 272_000,
  "openai-5.6": 272_000,
  deepseek: 128_000,
  gemini: 1_000_000,
  local: 1_000_000,
};
const DEFAULT_WINDOW = 200_000;

/** Replays every session of a source under each policy. */
export async function measureEconomy(
  { name, recordings, skipped }: Data,
  { profile, policies, countTokens, onSession }: {
    readonly profile: Profile;
    readonly policies: readonly string[];
    readonly countTokens: CountTokens;
    /** Called after each replayed session. */
    readonly onSession?: () => void;
  },
): Promise<EconomyResult[]> {
  const windowTokens = WINDOWS[profile.name] ?? DEFAULT_WINDOW;
  const run = async (policy: string): Promise<Replay[]> => {
    const replays: Replay[] = [];
    for (const recording of recordings) {
      const make = POLICIES[policy];
      if (!make) {
        throw new RangeError(
          `Cannot replay policy ${policy}: it is none of ${Object.keys(POLICIES).join(", ")}`,
        );
      }
      const options = { recording, profile, windowTokens, countTokens };
      replays.push(await replay(recording, await make(options), options));
      onSession?.();
    }
    return replays;
  };
  const resent = await run("resend");
  const best = await run("optimum");
  const results: EconomyResult[] = [];
  for (const policy of policies) {
    const replays = policy === "resend" ? resent : policy === "optimum" ? best : await run(policy);
    const ratios = replays.map(({ cost }, at) => {
      const alone = resent[at];
      return alone && alone.maxPromptTokens <= WINDOW_SHARE * windowTokens ? cost / alone.cost : 0;
    });
    results.push({
      data: name,
      profile: profile.name,
      policy,
      sessions: replays.length,
      skipped,
      calls: total(replays, "calls"),
      costVsResend: total(replays, "cost") / total(resent, "cost"),
      costVsOptimum: total(replays, "cost") / total(best, "cost"),
      worstVsResend: Math.max(...ratios) || 1,
      promptVsResend: total(replays, "promptTokens") / total(resent, "promptTokens"),
      hitRate: total(replays, "cachedTokens") / total(replays, "promptTokens"),
      epochs: total(replays, "epochs"),
      lostReferences: share(total(replays, "lostReferences"), total(replays, "references")),
      callsWithLostReference: share(total(replays, "callsWithLostReference"), total(replays, "toolCalls")),
    });
  }
  return results;
}

function total(replays: readonly Replay[], figure: keyof Replay): number {
  return replays.reduce((sum, replay) => sum + replay[figure], 0);
}

function share(part: number, whole: number): number {
  return whole === 0 ? 0 : part / whole;
}
