import type { Message, Usage } from "@tare/messages";
import { type Profile, profileNamed } from "@tare/planner";
import { recognizeProfile } from "../../packages/planner/providers.ts";
import { formatTable } from "../format_table.ts";
import { ask, type Bench } from "./experiment.ts";
import { formatDuration } from "./clock.ts";
import { nonce, prose, randomOf } from "./texts.ts";

export interface CacheSample {
  readonly writtenAtMs: number;
  readonly promptTokens: number;
  /** Idle time before the second request, in milliseconds. Absent while waiting. */
  readonly idleMs?: number;
  readonly usage?: Usage;
}

export interface CacheSettings {
  readonly idleMs: readonly number[];
  readonly repeats: number;
  readonly prefixTokens: number;
}

/** Smallest cached share of a cache hit; a block and the text after the prefix may be missing. */
const WARM_SHARE = 0.8;

/** No new prefix is sent if another is due within this time, in milliseconds. */
const CLOSE_MS = 60_000;

/** Tolerance of the idle time, as a share of it, for interruptions and slow replies. */
const LATE_SHARE = 0.1;

interface Job {
  readonly key: string;
  readonly idleMs: number;
}

function jobsOf({ idleMs, repeats }: CacheSettings): Job[] {
  return idleMs.flatMap((idle) =>
    Array.from(
      { length: repeats },
      (_, at) => ({ key: `${formatDuration(idle)} no. ${at + 1}`, idleMs: idle }),
    )
  );
}

/**
 * Sends a new prefix, waits, sends it again and records its cached tokens. Each idle time has its own prefixes, because
 * reading renews them. All wait concurrently, the longest first.
 */
export async function probe(bench: Bench<CacheSample>, settings: CacheSettings): Promise<void> {
  const { clock, results, progress, isSimulated } = bench;
  const jobs = jobsOf(settings);
  const done = () => jobs.filter(({ key }) => results.get(key)?.usage).length;
  const pending = () =>
    jobs.flatMap((job) => {
      const sample = results.get(job.key);
      return sample && !sample.usage ? [{ ...job, sample, dueMs: sample.writtenAtMs + job.idleMs }] : [];
    }).sort((a, b) => a.dueMs - b.dueMs);
  // The simulator has no state of an earlier run.
  if (isSimulated) { for (const { key } of pending()) results.set(key, undefined); }
  for (;;) {
    const [due] = pending();
    if (due && clock.now() > due.dueMs + LATE_SHARE * due.idleMs) {
      progress(`${due.key} was idle for too long and is sent again`);
      results.set(due.key, undefined);
      continue;
    }
    const unsent = jobs.filter(({ key }) => !results.get(key)).sort((a, b) => b.idleMs - a.idleMs)[0];
    if (!due && !unsent) return;
    const leftMs = due ? due.dueMs - clock.now() : Infinity;
    if (unsent && leftMs > CLOSE_MS) {
      const { promptTokens } = await send(bench, settings, { key: unsent.key, word: "first" });
      results.set(unsent.key, { writtenAtMs: clock.now(), promptTokens });
      progress(`sent a prefix of ${promptTokens} tokens, idle for ${unsent.key}`);
    } else if (due && leftMs > 0) {
      progress(`waiting ${formatDuration(leftMs)} for ${due.key}`);
      await clock.wait(leftMs);
    } else if (due) {
      const idleMs = clock.now() - due.sample.writtenAtMs;
      const usage = await send(bench, settings, { key: due.key, word: "second" });
      results.set(due.key, { ...due.sample, idleMs, usage });
      progress(
        `${done()}/${jobs.length}: after ${due.key} ${usage.cachedTokens} of ${due.sample.promptTokens} tokens were cached`,
      );
    }
  }
}

async function send(
  { model, countTokens, results }: Bench<CacheSample>,
  { prefixTokens }: CacheSettings,
  { key, word }: { readonly key: string; readonly word: string },
): Promise<Usage> {
  const name = nonce(results.seed, key);
  const text = prose(prefixTokens, { random: randomOf(name), countTokens });
  const messages: Message[] = [
    { role: "system", content: `${name}\n${text}` },
    { role: "user", content: `Answer with the word ${word}.` },
  ];
  return (await ask(model, { messages, tools: [] })).usage;
}

type CacheLifetime = Profile["cacheLifetime"][number];

export interface CacheLine extends CacheLifetime {
  readonly samples: number;
  readonly warm: number;
  readonly share: number;
  readonly stated: number;
}

export interface CacheSummary {
  readonly lines: readonly CacheLine[];
  readonly profileFile?: Partial<Profile> & { readonly profile: string };
}

/** Summarizes samples. The profile counts as one sample, so that few samples never give a probability of 0 or 1. */
export function summarize(
  { results, profile, modelName }: Bench<CacheSample>,
  settings: CacheSettings,
): CacheSummary {
  const { idleMs, repeats } = settings;
  const samples = jobsOf(settings).flatMap(({ key, idleMs }) => {
    const { usage, promptTokens = 0 } = results.get(key) ?? {};
    return usage ? [{ idleMs, usage, share: usage.cachedTokens / promptTokens }] : [];
  });
  const served = samples.find(({ usage }) => usage.cachedTokens > 0);
  const recognized = profile.cacheLifetime.length === 0 && served && recognizeProfile(served.usage);
  const base = recognized ? profileNamed(recognized) : profile;
  const lines = neverRising(idleMs.flatMap((idle): CacheLine[] => {
    const its = samples.filter((sample) => sample.idleMs === idle);
    if (its.length === 0) return [];
    const warm = its.filter(({ share }) => share >= WARM_SHARE).length;
    const share = its.reduce((sum, sample) => sum + sample.share, 0) / its.length;
    const stated = base.cacheLifetime.find((line) => idle <= line.idleMs)?.probability ?? 0;
    const probability = (warm + stated) / (its.length + 1);
    return [{ idleMs: idle, samples: its.length, warm, share, stated, probability }];
  }));
  const last = lines.at(-1);
  if (!served || !last) return { lines };
  const cacheLifetime = [
    ...lines,
    // The profile determines longer idle times.
    ...base.cacheLifetime.filter((line) => line.idleMs > last.idleMs),
  ].map(({ idleMs, probability }) => ({
    idleMs,
    probability: Number(Math.min(probability, idleMs > last.idleMs ? last.probability : 1).toFixed(3)),
  }));
  return {
    lines,
    profileFile: {
      profile: base.name,
      name: `${base.name}, measured`,
      ttlMs: cacheLifetime.findLast(({ probability }) => probability >= 0.5)?.idleMs ?? 0,
      cacheLifetime,
      source: `deno task bench cache, ${modelName}`,
      notes: `${repeats} prefixes of ${settings.prefixTokens} tokens for each idle time.`,
    },
  };
}

/** Makes probabilities monotonic: lines before a higher one share their mean. */
function neverRising(lines: readonly CacheLine[]): CacheLine[] {
  const pools: CacheLine[][] = [];
  const mean = (pool: readonly CacheLine[]) =>
    pool.reduce((sum, { probability, samples }) => sum + probability * samples, 0) /
    pool.reduce((sum, { samples }) => sum + samples, 0);
  for (const line of lines) {
    let pool = [line];
    for (let before = pools.at(-1); before && mean(before) < mean(pool); before = pools.at(-1)) {
      pool = [...before, ...pool];
      pools.pop();
    }
    pools.push(pool);
  }
  return pools.flatMap((pool) => pool.map((line) => ({ ...line, probability: mean(pool) })));
}

export function cacheTable(lines: readonly CacheLine[]): string {
  return formatTable([
    ["idle", "still cached", "share of tokens", "profile", "measured"],
    ...lines.map(({ idleMs, warm, samples, share, stated, probability }) => [
      formatDuration(idleMs),
      `${warm} of ${samples}`,
      `${(100 * share).toFixed(1)}%`,
      stated.toFixed(3),
      probability.toFixed(3),
    ]),
  ]);
}
