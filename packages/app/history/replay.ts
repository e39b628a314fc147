import type { CountTokens } from "@tare/messages";
import { listWindow, type Profile, profileForTtl, WINDOW_SHARE } from "@tare/planner";
import {
  ClientTrial,
  clockRule,
  compaction,
  outputPrice,
  pairCost,
  plannerPolicy,
  type PlayedPair,
  playPair,
  playSession,
  type Recording,
  resend,
  timedSession,
  type Warmer,
  windowFor,
} from "@tare/simulator/economy";
import type { LoggedCall } from "./log.ts";
import { lastsAnHour, modelRates } from "./spent.ts";

/** What a session comes to if nothing that was forgotten is needed, if it is fetched back once, and three times. */
export type AtKappa = Readonly<Record<"k0" | "k1" | "k3", number>>;

/** A recorded session as the engine of `bench:economy` and `bench:warmth` plays it, in the price of one input token. */
export interface Replay {
  /** The cache rules that it was played with. */
  readonly profile: string;
  readonly windowTokens: number;
  /** What its agent would do without Tare: resend everything or, where the window doesn't hold that, compact it. */
  readonly without: "resend" | "compaction";
  readonly resent: number;
  readonly alone: AtKappa;
  readonly planner: AtKappa;
  readonly repairs: number;
  /** Calls that replace an old text by a new one. */
  readonly edits: number;
  /** Of these, those that would have lost text: the old one was shown nowhere. */
  readonly lostEdits: number;
  /** The prompts as they were, kept warm in their pauses; absent where nothing is: such providers take no pings. */
  readonly warmth?: {
    readonly none: number;
    /** With pings, where the provider makes a prefix last an hour. */
    readonly kept: number;
    /** The same where it refuses that. */
    readonly refused: number;
    readonly pings: number;
    /** The planner's prompts, kept warm in the same way. */
    readonly planner: AtKappa;
  };
}

/** Plays sessions of one agent, which share what pings have shown of their provider. */
export class Replays {
  readonly #countTokens: CountTokens;
  readonly #kept = new Map<string, () => Warmer>();
  readonly #refused = new Map<string, () => Warmer>();
  readonly #trials = new Map<string, ClientTrial>();

  constructor(countTokens: CountTokens) {
    this.#countTokens = countTokens;
  }

  /** Plays one session. */
  async play(recording: Recording, calls: readonly LoggedCall[]): Promise<Replay> {
    const { profile, windowTokens } = conditionsOf(recording, calls);
    const countTokens = this.#countTokens;
    const options = { profile, windowTokens, countTokens };
    const resent = await playPair(recording, resend, { ...options, recall: false });
    const fits = resent.open.maxPromptTokens <= WINDOW_SHARE * windowTokens;
    const alone = fits
      ? resent
      : await playPair(recording, compaction("cached"), { ...options, recall: true });
    const planner = await playPair(recording, plannerPolicy, { ...options, recall: true });
    const warmth = await this.#warm(recording, options);
    return {
      profile: profile.name,
      windowTokens,
      without: fits ? "resend" : "compaction",
      resent: resent.open.cost,
      alone: atKappa(alone),
      planner: atKappa(planner),
      repairs: planner.closed.repairs,
      edits: planner.open.edits,
      lostEdits: planner.open.editsWithLostText,
      ...(warmth && { warmth }),
    };
  }

  async #warm(
    recording: Recording,
    options: { readonly profile: Profile; readonly windowTokens: number; readonly countTokens: CountTokens },
  ): Promise<Replay["warmth"]> {
    const { profile } = options;
    if (profile.writes === undefined || profile.ttlMs >= HOUR_MS) return undefined;
    const price = outputPrice(profile);
    const priced: Profile = { ...profile, price: { input: 1, output: price } };
    const session = timedSession(recording, this.#countTokens);
    const play = (warmer: Warmer, grants: boolean) =>
      playSession(session, warmer, { profile: priced, outputPrice: price, grants, tellsEnd: false });
    const none = play({ next: () => undefined }, true);
    const clock = () => clockRule(true)(priced);
    const kept = play(madeOnce(this.#kept, priced, clock)(), true);
    const refused = play(madeOnce(this.#refused, priced, clock)(), false);
    const trial = madeOnce(this.#trials, priced, () => new ClientTrial());
    const planner = await playPair(recording, (given) => plannerPolicy(given, { warmth: { trial } }), {
      ...{ ...options, profile: priced, recall: true, warmth: { grants: true, tellsEnd: false } },
    });
    const costs = { none: none.cost, kept: kept.cost, refused: refused.cost };
    return { ...costs, pings: kept.pings, planner: atKappa(planner) };
  }
}

const HOUR_MS = 3_600_000;

/** One for each set of cache rules, which learns from session to session. */
function madeOnce<T>(made: Map<string, T>, { name }: Profile, make: () => T): T {
  const known = made.get(name) ?? make();
  made.set(name, known);
  return known;
}

function atKappa(pair: PlayedPair): AtKappa {
  return { k0: pair.open.cost, k1: pairCost(pair, 1), k3: pairCost(pair, 3) };
}

/** Cache rules and window of a session: those of the model that most of its calls asked, and what they show. */
function conditionsOf({ model = "" }: Recording, calls: readonly LoggedCall[]) {
  const written = calls.filter(({ usage }) => (usage.cacheWriteTokens ?? 0) > 0);
  const forAnHour = written.filter(({ usage }) => lastsAnHour(usage)).length > written.length / 2;
  const known = modelRates(model).profile;
  const profile = forAnHour ? profileForTtl(known, HOUR_MS) : known;
  const longest = Math.max(0, ...calls.map(({ usage }) => usage.promptTokens));
  const usual = windowFor(profile);
  const windowTokens = longest <= usual ? usual : Math.max(longest, listWindow(model) ?? 0);
  return { profile, windowTokens };
}
