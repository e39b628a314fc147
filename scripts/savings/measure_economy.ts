import type { CountTokens } from "@tare/messages";
import type { Profile } from "@tare/planner";
import { WINDOW_SHARE } from "@tare/planner/internal";
import type { Data } from "./load_data.ts";
import {
  type NamesShown,
  pairCost,
  type Played,
  type PlayedPair,
  playPair,
  type Recording,
  windowFor,
} from "@tare/simulator/economy";
import { policyNamed } from "./policies/policies.ts";

/** How a policy does on some sessions at one provider. Costs and tokens are relative to resending everything. */
export interface EconomyRow {
  /**
   * The source, or the part of it that, resent whole, ` (fits)` the window or goes ` (over)` it; of these, by length,
   * those with so many calls.
   */
  readonly data: string;
  readonly profile: string;
  readonly policy: string;
  readonly sessions: number;
  readonly calls: number;
  /** Cost of all sessions if forgetting were free. */
  readonly cost0: number;
  /** The same with a recall before each call that needs what isn't shown, paid once. */
  readonly cost1: number;
  /** The same, paid three times: an edit that failed, reading again, trying again. */
  readonly cost3: number;
  readonly repairsPer100: number;
  /** Share of the edits that replaced a text which stood earlier and was shown nowhere, nothing having been recalled. */
  readonly editsLostText: number;
  /** Share of the sessions in which nothing that a call needed was missing. */
  readonly unaffected: number;
  /** Share of the tokens of all user messages so far that a prompt lacked, mean over the calls. */
  readonly userTokensGone: number;
  /** Cost of the worst session, forgetting being free. */
  readonly worst: number;
  readonly promptVsResend: number;
  /** Share of the prompt tokens that the cache served. */
  readonly hitRate: number;
  /** Stretches of calls each of which starts with the one before; all sessions together. */
  readonly epochs: number;
  /** Share of the calls whose prompt no provider takes. */
  readonly refused: number;
}

/** What {@linkcode measureEconomy} goes by. */
export interface MeasureOptions {
  readonly profile: Profile;
  readonly policies: readonly string[];
  /** Finds a policy by its name; must know `resend`. Default: the benchmark's own. */
  readonly named?: typeof policyNamed;
  readonly countTokens: CountTokens;
  /** The model's window. Default: the usual one at this provider. */
  readonly windowTokens?: number;
  /** Prompt tokens alone: no fixed prefix, no recall tool, no output. */
  readonly bare?: boolean;
  /** How a name must be shown so that nothing of it is missing. Default: `parts`. */
  readonly namesShown?: NamesShown;
  /** Whether sessions that fit and those that don't have a row for each length too. */
  readonly byLength?: boolean;
  /** Called after each played session. */
  readonly onSession?: () => void;
}

/** Most calls of the sessions in each row by length. */
const LENGTHS = [25, 60, 120, Infinity];

/** The sessions of one row. */
interface Part {
  readonly data: string;
  readonly has: (at: number) => boolean;
}

/**
 * Plays every session under each policy. Sessions that fit the window if everything is resent, and those that don't,
 * also have rows of their own: in the latter resending isn't what anybody does, and the rows of `compaction` are the
 * ones to compare with. Several sources also have rows together, as `all`.
 */
export async function measureEconomy(
  sources: readonly Pick<Data, "name" | "recordings">[],
  options: MeasureOptions,
): Promise<EconomyRow[]> {
  const { profile, policies, windowTokens = windowFor(profile) } = options;
  const sessions = sources.flatMap(({ name, recordings }) =>
    recordings.map((recording) => ({ data: name, recording }))
  );
  const playAll = (policy: string) =>
    playSessions(sessions.map(({ recording }) => recording), policy, { ...options, windowTokens });
  const resent = await playAll("resend");
  const fits = resent.map(({ open }) => open.maxPromptTokens <= WINDOW_SHARE * windowTokens);
  const names = sources.map(({ name }) => name);
  const parts = [...names, ...(names.length > 1 ? ["all"] : [])].flatMap((data): Part[] => {
    const isOf = (at: number) => data === "all" || sessions[at]?.data === data;
    const fit = { data: `${data} (fits)`, has: (at: number) => isOf(at) && fits[at] === true };
    const over = { data: `${data} (over)`, has: (at: number) => isOf(at) && fits[at] === false };
    const divided = [fit, over].filter(({ has }) => sessions.some((_, at) => has(at)));
    const lengths = options.byLength ? divided.flatMap((part) => byLength(part, sessions)) : [];
    return divided.length > 1
      ? [...lengths, ...divided, { data, has: isOf }]
      : [...lengths, { ...divided[0]!, data: divided[0] === over ? over.data : data }];
  });
  const played = new Map<string, readonly PlayedPair[]>([["resend", resent]]);
  for (const policy of policies) if (!played.has(policy)) played.set(policy, await playAll(policy));
  return parts.flatMap(({ data, has }) =>
    policies.map((policy) => {
      const of = (pairs: readonly PlayedPair[] = []) => pairs.filter((_, at) => has(at));
      return toRow({ data, profile: profile.name, policy }, of(played.get(policy)), of(resent));
    })
  );
}

/** A part's sessions by their number of calls. */
function byLength({ data, has }: Part, sessions: readonly { readonly recording: Recording }[]): Part[] {
  return LENGTHS.map((most, at): Part => {
    const least = (LENGTHS[at - 1] ?? 0) + 1;
    return {
      data: data.replace(
        /\)$/,
        most === Infinity ? `, ${least} calls or more)` : `, ${least}–${most} calls)`,
      ),
      has: (at) => {
        const calls = sessions[at]!.recording.calls.length;
        return has(at) && least <= calls && calls <= most;
      },
    };
  }).filter(({ has }) => sessions.some((_, at) => has(at)));
}

async function playSessions(
  recordings: readonly Recording[],
  policy: string,
  { onSession, named = policyNamed, ...options }: MeasureOptions & { readonly windowTokens: number },
): Promise<PlayedPair[]> {
  const { make, recall } = named(policy);
  const pairs: PlayedPair[] = [];
  for (const recording of recordings) {
    pairs.push(await playPair(recording, make, { ...options, recall }));
    onSession?.();
  }
  return pairs;
}

function toRow(
  names: Pick<EconomyRow, "data" | "profile" | "policy">,
  pairs: readonly PlayedPair[],
  resent: readonly PlayedPair[],
): EconomyRow {
  const open = (figure: keyof Played) => pairs.reduce((sum, pair) => sum + pair.open[figure], 0);
  const closed = (figure: keyof Played) => pairs.reduce((sum, pair) => sum + pair.closed[figure], 0);
  const resend = (figure: keyof Played) => resent.reduce((sum, pair) => sum + pair.open[figure], 0);
  const costAt = (times: number) =>
    pairs.reduce((sum, pair) => sum + pairCost(pair, times), 0) / resend("cost");
  const calls = open("calls");
  return {
    ...names,
    sessions: pairs.length,
    calls,
    cost0: open("cost") / resend("cost"),
    cost1: costAt(1),
    cost3: costAt(3),
    repairsPer100: 100 * closed("repairs") / calls,
    editsLostText: open("editsWithLostText") / Math.max(1, open("edits")),
    unaffected: pairs.filter((pair) => pair.open.repairs === 0).length / pairs.length,
    userTokensGone: open("userShareGone") / calls,
    worst: Math.max(...pairs.map((pair, at) => pair.open.cost / resent[at]!.open.cost)),
    promptVsResend: open("promptTokens") / resend("promptTokens"),
    hitRate: open("cachedTokens") / open("promptTokens"),
    epochs: open("epochs"),
    refused: open("refused") / calls,
  };
}
