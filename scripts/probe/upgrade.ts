import type { Message, Usage } from "@tare/messages";
import { promptCost } from "@tare/planner/internal/parts";
import { formatTable } from "../format_table.ts";
import { ask, type Bench } from "./experiment.ts";
import { formatDuration } from "./clock.ts";
import { money } from "./paid_model.ts";
import { nonce, prose, randomOf } from "./texts.ts";

export interface UpgradeSample {
  readonly atMs: number;
  readonly usage: Usage;
}

export interface UpgradeSettings {
  readonly prefixTokens: number;
}

/** Tokens of the reply before the one-hour breakpoint: enough to be distinguished from its overhead. */
const ANSWER_TOKENS = 600;

const MINUTE = 60_000;

const STEPS = [
  { name: "writes the prefix for five minutes", afterMs: 0 },
  { name: "reads it, with a one-hour breakpoint after a reply", afterMs: 280_000 },
  { name: "reads it after the five minutes", afterMs: 38 * MINUTE },
  { name: "reads it after the hour, but within an hour of the last read", afterMs: 70 * MINUTE },
] as const;

const LATE_MS = 15_000;

const READ_SHARE = 0.9;

const FIVE_MINUTES = { type: "ephemeral" };
const AN_HOUR = { type: "ephemeral", ttl: "1h" };

function marked(text: string, cache_control: Readonly<Record<string, string>>) {
  return [{ type: "text", text, cache_control }];
}

/** Returns the documented and the highest possible cost of all four requests, in US dollars. */
export function priceUpgrade(
  { profile, prices }: Bench<UpgradeSample>,
  { prefixTokens }: UpgradeSettings,
): { readonly expectedUsd: number; readonly mostUsd: number } {
  const { short, hour } = profile.writes ?? { short: profile.write, hour: profile.write };
  const reads = 3 * profile.read * prefixTokens + 2 * profile.read * ANSWER_TOKENS;
  const expected = short * prefixTokens + reads + hour * ANSWER_TOKENS;
  const most = (3 * short + hour) * (prefixTokens + ANSWER_TOKENS);
  const [expectedUsd, mostUsd] = [expected, most].map((units) =>
    (units * prices.inUsd + STEPS.length * prices.outUsd) / 1e6
  ) as [number, number];
  return { expectedUsd, mostUsd };
}

/**
 * Sends a new prefix, extends it to an hour after 280 s, and reads it twice: after five minutes, and after the hour but
 * within an hour of the first read. A run that was interrupted for too long starts again.
 */
export async function probeUpgrade(bench: Bench<UpgradeSample>, settings: UpgradeSettings): Promise<void> {
  const { clock, results, progress, isSimulated } = bench;
  const { expectedUsd, mostUsd } = priceUpgrade(bench, settings);
  progress(
    `four requests in ${formatDuration(STEPS.at(-1)!.afterMs)}: about ${money(expectedUsd)}, at most ${
      money(mostUsd)
    }`,
  );
  for (let at = 0; at < STEPS.length;) {
    if (results.get(`${at + 1}`)) {
      at++;
      continue;
    }
    const startMs = results.get("1")?.atMs ?? clock.now();
    const dueMs = startMs + STEPS[at]!.afterMs;
    // The simulator has no state of an earlier run.
    if (at > 0 && (clock.now() > dueMs + LATE_MS || isSimulated && startMs < results.seed)) {
      progress(`request ${at + 1} is too late, so all are repeated`);
      for (const number of STEPS.keys()) results.set(`${number + 1}`, undefined);
      at = 0;
      continue;
    }
    if (dueMs > clock.now()) {
      progress(`waiting ${formatDuration(dueMs - clock.now())} for request ${at + 1}`);
      await clock.wait(dueMs - clock.now());
    }
    const atMs = clock.now();
    // Each attempt has its own prefix, named after the time of its first request.
    const usage = await send(bench, settings, { at, name: nonce(at === 0 ? atMs : startMs, "upgrade") });
    results.set(`${at + 1}`, { atMs, usage });
    progress(
      `${at + 1}/${STEPS.length}: ${
        STEPS[at]!.name
      }; ${usage.cachedTokens} of ${usage.promptTokens} tokens were cached`,
    );
  }
}

async function send(
  { asking, countTokens }: Bench<UpgradeSample>,
  { prefixTokens }: UpgradeSettings,
  { at, name }: { readonly at: number; readonly name: string },
): Promise<Usage> {
  const front = `${name}\n${prose(prefixTokens, { random: randomOf(name), countTokens })}`;
  const answer = prose(ANSWER_TOKENS, { random: randomOf(`${name} answer`), countTokens });
  const question = "Say yes.";
  const isFirst = at === 0;
  const isKeepAlive = at === 1;
  const last = isKeepAlive ? "." : `Say it once more, for the ${at}th time.`;
  const body = {
    system: [{ type: "text", text: front }],
    messages: isFirst ? [{ role: "user", content: marked(question, FIVE_MINUTES) }] : [
      { role: "user", content: question },
      { role: "assistant", content: isKeepAlive ? marked(answer, AN_HOUR) : answer },
      { role: "user", content: isKeepAlive ? last : marked(last, FIVE_MINUTES) },
    ],
  };
  // The same as chat messages, to be priced before it is sent.
  const messages: Message[] = [
    { role: "system", content: front },
    { role: "user", content: question },
    ...(isFirst ? [] : [
      { role: "assistant", content: answer } as const,
      { role: "user", content: last } as const,
    ]),
  ];
  return (await ask(asking(body), { messages, tools: [] })).usage;
}

export interface UpgradeSummary {
  /** Whether the extension was billed as a read and a one-hour write of the reply only. */
  readonly billedAsDocumented: boolean;
  /** Whether the prefix was cached after five minutes. */
  readonly livesForAnHour: boolean;
  /** Whether it was cached an hour after the extension, after a read in between. */
  readonly isRefreshed: boolean;
}

export function summarizeUpgrade({ results }: Bench<UpgradeSample>): UpgradeSummary | undefined {
  const samples = STEPS.flatMap((_, at) => results.get(`${at + 1}`) ?? []);
  const [first, ping, back, late] = samples.map(({ usage }) => usage);
  if (!first || !ping || !back || !late) return undefined;
  const { cachedTokens, promptTokens, hourWriteTokens = 0 } = ping;
  const least = READ_SHARE * first.promptTokens;
  const isRead = ({ cachedTokens }: Usage) => cachedTokens >= least;
  const written = promptTokens - cachedTokens;
  return {
    billedAsDocumented: isRead(ping) && hourWriteTokens > written / 2 && hourWriteTokens <= written,
    livesForAnHour: isRead(back),
    isRefreshed: isRead(late),
  };
}

export function upgradeTable(
  { results, profile, prices }: Bench<UpgradeSample>,
  summary: UpgradeSummary | undefined,
): string {
  const rows = STEPS.flatMap(({ name, afterMs }, at) => {
    const usage = results.get(`${at + 1}`)?.usage;
    if (!usage) return [];
    const { promptTokens, cachedTokens, cacheWriteTokens = 0, hourWriteTokens = 0, outputTokens } = usage;
    const usd = (promptCost(profile, usage) * prices.inUsd + outputTokens * prices.outUsd) / 1e6;
    return [[
      formatDuration(afterMs),
      name,
      ...[promptTokens, cachedTokens, cacheWriteTokens - hourWriteTokens, hourWriteTokens].map(String),
      money(usd),
    ]];
  });
  const table = formatTable([
    ["after", "request", "prompt", "read", "written 5m", "written 1h", "cost"],
    ...rows,
  ]);
  if (!summary) return table;
  const { billedAsDocumented, livesForAnHour, isRefreshed } = summary;
  return [
    table,
    "",
    billedAsDocumented
      ? "The extension was billed as documented: the prefix was read, and only the reply written for an hour."
      : "The extension was not billed as documented: extended keep-alive is not available here.",
    livesForAnHour
      ? "The prefix was cached long after its five minutes."
      : "The prefix was not cached after its five minutes: only exact keep-alive requests help.",
    isRefreshed
      ? "It was cached over an hour later: a read within the hour renews it for another."
      : "It was not cached an hour later: a read within the hour doesn't renew it.",
  ].join("\n");
}
