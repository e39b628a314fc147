/**
 * What does it take to be served from a provider's cache? First, what a provider of several machines serves to a client that
 * names its conversations by no key, straight and through Tare: a simulation of what OpenAI documents.
 *
 * Then, with recordings, how well is it predicted whether a provider still has the previous prefix? For the recordings that carry their
 * provider's own usage, prints the Brier scores of the session-corrected estimate, of the profile's prior and of a
 * fixed edge at five minutes, and by idle time what was predicted and what was observed.
 *
 *     deno task bench:cache [--data DIR]
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import { chooseProfile } from "@tare/planner";
import { measureRouting, ROUTING_SCENE } from "./bench/cache_routing.ts";
import { formatTable } from "./bench/format_table.ts";
import { loadData } from "./bench/economy/load_data.ts";
import { brierScore, ESTIMATES, type ScoredCall, scoreWarmth } from "./bench/economy/warmth_score.ts";

const MINUTE = 60_000;
const BUCKETS_MIN = [1, 5, 10, 30, 60, 120, Infinity];

async function main(): Promise<void> {
  const { values: { data } } = parseArgs({ args: Deno.args, options: { data: { type: "string" } } });
  await printRouting();
  if (data) printScores(data);
}

async function printRouting(): Promise<void> {
  const rows: string[][] = [["conversations", "", "machines", "straight", "through Tare"]];
  for (const conversations of [4, ROUTING_SCENE.conversations, 24]) {
    for (const shards of [1, ROUTING_SCENE.shards]) {
      const shares = await Promise.all(
        [false, true].map((throughTare) =>
          measureRouting({ ...ROUTING_SCENE, conversations, shards, throughTare })
        ),
      );
      const told = shares.map((share) => `${(100 * share).toFixed(1)} %`);
      rows.push([String(conversations), "", String(shards), ...told]);
    }
  }
  const perMinute = 60_000 / ROUTING_SCENE.betweenMs;
  console.log(
    `Prompt tokens served from the cache: one agent's conversations of ${ROUTING_SCENE.calls} calls, ${perMinute} a minute each\n` +
      `${formatTable(rows)}\n`,
  );
}

function printScores(data: string): void {
  const all: ScoredCall[] = [];
  const scores: string[][] = [["data", "profile", "calls", ...ESTIMATES]];
  for (const { name, recordings } of loadData(data, { warn: (sentence) => console.error(sentence) })) {
    const calls = recordings.flatMap((recording) => {
      const profile = chooseProfile(recording.model === undefined ? {} : { model: recording.model });
      return profile.name === "none" ? [] : scoreWarmth(recording, profile);
    });
    const { model } = recordings[0] ?? {};
    if (calls.length > 0) {
      scores.push(score(name, chooseProfile(model === undefined ? {} : { model }).name, calls));
    }
    all.push(...calls);
  }
  if (all.length === 0) {
    throw new Error(`Cannot score predictions: no recording in ${data} says what was cached`);
  }
  scores.push(score("all", "", all));
  console.log(`Brier scores (0 is perfect)\n${formatTable(scores)}\n`);
  console.log(`Warm calls, observed and predicted\n${formatTable(byIdleTime(all))}`);
}

function score(name: string, profile: string, calls: readonly ScoredCall[]): string[] {
  return [name, profile, String(calls.length), ...ESTIMATES.map((_, at) => brierScore(calls, at).toFixed(4))];
}

function byIdleTime(all: readonly ScoredCall[]): string[][] {
  const rows: string[][] = [["idle", "", "calls", "observed", ...ESTIMATES]];
  let from = -1;
  for (const minutes of BUCKETS_MIN) {
    const to = minutes * MINUTE;
    const calls = all.filter(({ idleMs }) => idleMs > from && idleMs <= to);
    const mean = (figure: (call: ScoredCall) => number) =>
      calls.length === 0
        ? "–"
        : (calls.reduce((sum, call) => sum + figure(call), 0) / calls.length).toFixed(3);
    rows.push([
      minutes === Infinity ? "longer" : `to ${minutes} min`,
      "",
      String(calls.length),
      mean(({ warm }) => warm ? 1 : 0),
      ...ESTIMATES.map((_, at) => mean(({ predicted }) => predicted[at] ?? 0)),
    ]);
    from = to;
  }
  return rows;
}

if (import.meta.main) {
  try {
    await main();
  } catch (error) {
    console.error((error as Error).message);
    Deno.exitCode = 1;
  }
}
