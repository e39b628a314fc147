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
import { billOf } from "./real_bill.ts";

/** Result of a policy for sessions at one provider. Costs and tokens are relative to resending everything. */
export interface EconomyRow {
  /** Source, or its sessions that ` (fits)` or ` (over)` the window when resent. */
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
  /** Cost of the worst session, with refetches weighted by three. */
  readonly worst: number;
  readonly promptVsResend: number;
  readonly hitRate: number;
  /** Number of epochs (calls whose prompts extend each other) of all sessions. */
  readonly epochs: number;
  readonly refused: number;
  /** Costs relative to what was paid, as in {@linkcode billOf}. Default: no session has a bill. */
  readonly bill?: BillRow;
}

export interface BillRow {
  readonly sessions: number;
  readonly cost0: number;
  readonly cost3: number;
  readonly worst: number;
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
  /** Whether sessions are also compared with their bills. Default: unless `bare`. */
  readonly bills?: boolean;
  /** Called after each session. */
  readonly onSession?: () => void;
}

/** A session under each policy. */
export interface SessionPlays {
  readonly data: string;
  readonly recording: Recording;
  readonly resent: PlayedPair;
  readonly played: ReadonlyMap<string, PlayedPair>;
  /** The recorded bill, and its replay under each policy. Default: none is recorded. */
  readonly bill?: { readonly cost: number; readonly played: ReadonlyMap<string, PlayedPair> };
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
  const sessions = await playSessions(sources, options);
  const isFit = ({ resent }: SessionPlays) => resent.open.maxPromptTokens <= WINDOW_SHARE * windowTokens;
  const parts = [...sources.map(({ name }) => name), ...(sources.length > 1 ? ["all"] : [])].flatMap(
    (data) => {
      const its = sessions.filter((session) => data === "all" || session.data === data);
      const fits = { data: `${data} (fits)`, sessions: its.filter(isFit) };
      const over = { data: `${data} (over)`, sessions: its.filter((session) => !isFit(session)) };
      if (over.sessions.length === 0) return [{ data, sessions: its }];
      return fits.sessions.length === 0 ? [over] : [fits, over, { data, sessions: its }];
    },
  );
  return parts.flatMap(({ data, sessions }) =>
    policies.map((policy) => toRow({ data, profile: profile.name, policy }, sessions))
  );
}

/** Replays every session, as it was recorded and against its bill. */
export async function playSessions(
  sources: readonly Pick<Data, "name" | "recordings">[],
  { policies, named = policyNamed, onSession, bare = false, bills = !bare, namesVisible, ...options }:
    MeasureOptions,
): Promise<SessionPlays[]> {
  const { profile, countTokens, windowTokens = windowFor(profile) } = options;
  const sessions: SessionPlays[] = [];
  for (const { name: data, recordings } of sources) {
    for (const recording of recordings) {
      const playAll = async (
        recording: Recording,
        given: Omit<Parameters<typeof playPair>[2], "recall">,
        names: Iterable<string>,
      ) => {
        const played = new Map<string, PlayedPair>();
        for (const name of names) {
          const { make, recall } = named(name);
          const shared = { ...(bare && { bare }), ...(namesVisible && { namesVisible }) };
          played.set(name, await playPair(recording, make, { ...given, ...shared, recall }));
        }
        return played;
      };
      const given = { profile, countTokens, windowTokens };
      const played = await playAll(recording, given, new Set(["resend", ...policies]));
      const bill = bills ? billOf(recording, given) : undefined;
      sessions.push({
        data,
        recording,
        resent: played.get("resend")!,
        played,
        ...(bill && {
          bill: { cost: bill.cost, played: await playAll(bill.recording, bill.options, policies) },
        }),
      });
      onSession?.();
    }
  }
  return sessions;
}

/** Returns the totals of a policy over sessions. */
export function toRow(
  names: Pick<EconomyRow, "data" | "profile" | "policy">,
  sessions: readonly SessionPlays[],
): EconomyRow {
  const pairs = sessions.map(({ played, resent }) => ({ pair: played.get(names.policy)!, resent }));
  const open = (figure: keyof Played) => pairs.reduce((sum, { pair }) => sum + pair.open[figure], 0);
  const closed = (figure: keyof Played) => pairs.reduce((sum, { pair }) => sum + pair.closed[figure], 0);
  const resend = (figure: keyof Played) => pairs.reduce((sum, { resent }) => sum + resent.open[figure], 0);
  const costAt = (times: number) =>
    pairs.reduce((sum, { pair }) => sum + pairCost(pair, times), 0) / resend("cost");
  const calls = open("calls");
  const bill = billRow(names.policy, sessions);
  return {
    ...names,
    sessions: pairs.length,
    calls,
    cost0: open("cost") / resend("cost"),
    cost1: costAt(1),
    cost3: costAt(REFETCH_WEIGHT),
    refetchesPer100: 100 * closed("refetches") / calls,
    editsLostText: open("editsWithLostText") / Math.max(1, open("edits")),
    unaffected: pairs.filter(({ pair }) => pair.open.refetches === 0).length / pairs.length,
    userTokensGone: open("userShareGone") / calls,
    worst: Math.max(...pairs.map(({ pair, resent }) => pairCost(pair, REFETCH_WEIGHT) / resent.open.cost)),
    promptVsResend: open("promptTokens") / resend("promptTokens"),
    hitRate: open("cachedTokens") / open("promptTokens"),
    epochs: open("epochs"),
    refused: open("refused") / calls,
    ...(bill && { bill }),
  };
}

export const REFETCH_WEIGHT = 3;

function billRow(policy: string, sessions: readonly SessionPlays[]): BillRow | undefined {
  const billed = sessions.flatMap(({ bill }) =>
    bill ? [{ paid: bill.cost, pair: bill.played.get(policy)! }] : []
  );
  if (billed.length === 0) return undefined;
  const paid = billed.reduce((sum, { paid }) => sum + paid, 0);
  return {
    sessions: billed.length,
    cost0: billed.reduce((sum, { pair }) => sum + pair.open.cost, 0) / paid,
    cost3: billed.reduce((sum, { pair }) => sum + pairCost(pair, REFETCH_WEIGHT), 0) / paid,
    worst: Math.max(...billed.map(({ pair, paid }) => pairCost(pair, REFETCH_WEIGHT) / paid)),
  };
}
