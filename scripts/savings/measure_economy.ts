import type { CountTokens } from "@tare/messages";
import type { Profile } from "@tare/planner";
import { WINDOW_SHARE } from "@tare/planner/internal";
import type { Data } from "./load_data.ts";
import {
  pairCost,
  type Played,
  type PlayedPair,
  playPair,
  type Recording,
  type VisibleNames,
  windowFor,
} from "@tare/simulator/economy";
import { policyNamed } from "./policies/policies.ts";

/** Result of a policy for sessions at one provider. Costs and tokens are relative to resending everything. */
export interface EconomyRow {
  /** Source, or its sessions that ` (fits)` or ` (over)` the window when resent, or a range of their lengths in calls. */
  readonly data: string;
  readonly profile: string;
  readonly policy: string;
  readonly sessions: number;
  readonly calls: number;
  /** Cost of all sessions without refetches. */
  readonly cost0: number;
  /** Cost with a refetch before each call that needs evicted content. */
  readonly cost1: number;
  /** Cost with refetches weighted by three: a failed edit, a read and a retry. */
  readonly cost3: number;
  readonly refetchesPer100: number;
  /** Share of the edits whose old text was evicted, without refetches. */
  readonly editsLostText: number;
  readonly unaffected: number;
  /** Mean share of user tokens that a prompt lacks, over the calls. */
  readonly userTokensGone: number;
  /** Cost of the worst session, without refetches. */
  readonly worst: number;
  readonly promptVsResend: number;
  readonly hitRate: number;
  /** Number of epochs (calls whose prompts extend each other) of all sessions. */
  readonly epochs: number;
  readonly refused: number;
}

export interface MeasureOptions {
  readonly profile: Profile;
  readonly policies: readonly string[];
  /** Looks up a policy; must support `resend`. Default: {@linkcode policyNamed}. */
  readonly named?: typeof policyNamed;
  readonly countTokens: CountTokens;
  /** Default: the provider's usual one. */
  readonly windowTokens?: number;
  /** Whether only prompt tokens count: no fixed prefix, recall tool or output. Default: false. */
  readonly bare?: boolean;
  /** Visibility that a name needs. Default: `parts`. */
  readonly namesVisible?: VisibleNames;
  /** Whether to add rows by session length. Default: false. */
  readonly byLength?: boolean;
  readonly onSession?: () => void;
}

const LENGTHS = [25, 60, 120, Infinity];

interface Part {
  readonly data: string;
  readonly has: (at: number) => boolean;
}

/**
 * Replays every session under each policy. Sessions that fit the window when resent, and those that don't, have separate
 * rows: for the latter, `compaction` is the row to compare with. Several sources have additional rows `all`.
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
    refetchesPer100: 100 * closed("refetches") / calls,
    editsLostText: open("editsWithLostText") / Math.max(1, open("edits")),
    unaffected: pairs.filter((pair) => pair.open.refetches === 0).length / pairs.length,
    userTokensGone: open("userShareGone") / calls,
    worst: Math.max(...pairs.map((pair, at) => pair.open.cost / resent[at]!.open.cost)),
    promptVsResend: open("promptTokens") / resend("promptTokens"),
    hitRate: open("cachedTokens") / open("promptTokens"),
    epochs: open("epochs"),
    refused: open("refused") / calls,
  };
}
