import { countRequestTokens } from "@tare/messages";
import { scaled, type TokenScale, tokenScale } from "../cache/provider_tokens.ts";
import type { Edit } from "../edits/edit.ts";
import { findWishes, pinnedPlaces, rideOf, type Wishes } from "../edits/pinned.ts";
import { compactedTools } from "../edits/view.ts";
import { promptCost } from "../ledger/price.ts";
import type { Profile } from "../providers.ts";
import { findRemovals, type Removal, type Seen } from "../retention/find_removals.ts";
import type { Retention } from "../retention/retention.ts";
import { decide, isSurelyCold, reckonedAlive, withRents } from "./decide.ts";
import type { KnownHistory } from "./known_history.ts";
import { forced, makeRoom, WINDOW_SHARE } from "./make_room.ts";
import type { Decision, PlannerOptions, PlanRequest } from "./plan.ts";
import type { PlannerState } from "./planner_state.ts";
import { predict, type Prediction, resendOf, servedOf } from "./predict.ts";

/** A prompt as it would be sent, and whether to change it. */
export interface Draft {
  readonly seen: Seen;
  /** Counted here. */
  readonly promptTokens: number;
  readonly removals: readonly Removal[];
  readonly leaving: readonly Removal[];
  readonly predicted: Prediction;
  /** Counted by the provider. */
  readonly prompt: { readonly promptTokens: number; readonly cachedTokens: number; readonly alive: number };
  /** How the one count follows from the other. */
  readonly scale: TokenScale;
  readonly decision?: Decision;
  /** What was asked for and isn't so yet. */
  readonly wishes: Wishes;
  /** Whether doing it breaks nothing that the cache holds. */
  readonly isFree: boolean;
}

/** What {@linkcode draftPrompt} goes by. */
export interface DraftOptions extends Omit<PlannerOptions, "profile" | "retention" | "lossLimit"> {
  readonly retention: Retention;
  readonly lossLimit: number;
  /** What is known of the history with these very edits. */
  readonly known: KnownHistory;
  readonly state: PlannerState;
  readonly profile: Profile;
  /** Whether to look for all that could leave, not only for what was shown and costs more than it is worth. */
  readonly all: boolean;
}

/** The prompt after these edits, what could leave it, and whether to let it. */
export function draftPrompt(request: PlanRequest, edits: readonly Edit[], options: DraftOptions): Draft {
  const { countTokens, windowTokens = Infinity, lossLimit, known, state, profile, all } = options;
  const { messages: history, tools, pins = [], nowMs, model } = request;
  const { layout, standings } = known;
  const scale = tokenScale(state.counted);
  const shownTools = compactedTools(tools, edits);
  const toolTokens = countRequestTokens({ messages: [], tools: shownTools }, countTokens);
  const promptTokens = toolTokens + layout.tokens;
  const seen = { layout, standings, tools, shownTools, toolTokens };
  const { warmth } = state;
  const predicted = predict(state.sent, { profile, warmth, nowMs, model, tools: shownTools, countTokens });
  const { alive } = predicted;
  const theirs = scaled(scale, promptTokens);
  const cachedTokens = servedOf(profile, scale, { promptTokens: theirs, ...predicted });
  const prompt = { promptTokens: theirs, cachedTokens, alive };
  const full = theirs > WINDOW_SHARE * windowTokens;
  const pinnedAs = pins.map(({ place, wish }) => `${place} ${wish}`).join();
  known.judgeBy(`${profile.name} ${scale.perToken} ${Math.round(scale.unseen / 1_000)} ${pinnedAs}`);
  const seenMessages = state.seen || Infinity;
  const wishes = findWishes(pins, { history, layout, seenMessages, countTokens });
  const ride = rideOf(wishes, (tokens) => scaled(scale, toolTokens + tokens), scale.perToken);
  const removals = findRemovals(seen, {
    ...options,
    pinned: pinnedPlaces(pins, history),
    scale,
    all: all || full,
    // In a full window something must leave: rather what can be recalled than what was said.
    seenMessages: full ? Infinity : seenMessages,
    seenTools: new Set(state.sent.flatMap(({ tools }) => tools)),
  });
  const removable = removals.filter(({ goes }) => goes);
  const reckoned = reckonedAlive(alive);
  const cost = promptCost(profile, { promptTokens: theirs, cachedTokens: reckoned * cachedTokens });
  const fullTokens = countRequestTokens({ messages: [], tools }, countTokens) + layout.fullTokens;
  const resendTokens = theirs +
    scale.perToken * (fullTokens - promptTokens + (request.deferred?.tokens ?? 0));
  const resendNow = promptCost(
    profile,
    resendOf(state.sent, request, { profile, scale, promptTokens: resendTokens, alive: reckoned }),
  );
  const situation = { profile, ...prompt };
  // What a fork's first request shares with its parent's last is paid for: rewriting waits until that has been read.
  const isHeld = state.forked && !isSurelyCold(alive);
  const { cut, decision } = decide(isHeld ? [] : withRents(removable, state), {
    ...situation,
    ride,
    allowedPrice: (1 + lossLimit) * (state.resend + resendNow) - state.paid - cost,
    stopped: state.stopped,
  });
  const isFree = ride !== undefined && (isSurelyCold(alive) || cachedTokens <= ride.start);
  const draft = { seen, promptTokens, removals, predicted, prompt, scale, wishes, isFree };
  if (cut) return { ...draft, leaving: removable.slice(cut.first), ...(decision && { decision }) };
  const room = makeRoom(removals, { ...situation, windowTokens });
  if (room.length === 0) return { ...draft, leaving: [], ...(decision && { decision }) };
  return { ...draft, leaving: room, decision: forced(room, situation) };
}
