/**
 * Replays recorded sessions call by call under each policy against a simulated prefix cache, and prints what each
 * costs and forgets.
 *
 *     deno task bench:economy [--data DIR] [--profile NAME]… [--policy NAME]… [--limit N] [--json]
 *
 * Without `--data` a generated workload is replayed. `--json` prints one object a line.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import { loadTokenizer } from "@tare/messages/tiktoken";
import { profileNamed } from "@tare/planner";
import { type EconomyResult, measureEconomy } from "./bench/economy/economy.ts";
import { formatTable } from "./bench/format_table.ts";
import { loadData } from "./bench/economy/load_data.ts";
import { POLICIES } from "./bench/economy/policies.ts";
import { generateWorkload } from "./bench/economy/workload.ts";

const DEFAULT_PROFILES = ["anthropic-5m", "openai", "deepseek", "none"];

async function main(): Promise<void> {
  const { values } = parseArgs({
    args: Deno.args,
    options: {
      data: { type: "string" },
      profile: { type: "string", multiple: true, default: DEFAULT_PROFILES },
      policy: { type: "string", multiple: true, default: Object.keys(POLICIES) },
      limit: { type: "string", default: "Infinity" },
      json: { type: "boolean", default: false },
    },
  });
  const profiles = values.profile.map(profileNamed);
  for (const policy of values.policy) {
    if (!Object.hasOwn(POLICIES, policy)) {
      throw new RangeError(
        `Cannot replay policy ${policy}: it is none of ${Object.keys(POLICIES).join(", ")}`,
      );
    }
  }
  const limit = Number(values.limit);
  if (!(limit > 0)) {
    throw new RangeError(`Cannot replay ${values.limit} sessions: --limit must be a number above 0`);
  }
  const warn = (sentence: string) => console.error(sentence);
  const data = values.data
    ? loadData(values.data, { limit, warn })
    : [{ name: "generated", recordings: generateWorkload().slice(0, limit), skipped: 0 }];

  const { count: countTokens } = await loadTokenizer();
  const sessions = data.reduce((sum, { recordings }) => sum + recordings.length, 0);
  const runs = new Set([...values.policy, "resend", "optimum"]).size;
  const bar = new ProgressBar(sessions * runs * profiles.length);
  for (const profile of profiles) {
    const results: EconomyResult[] = [];
    for (const source of data) {
      const options = { profile, policies: values.policy, countTokens, onSession: bar.step };
      results.push(...await measureEconomy(source, options));
    }
    bar.clear();
    if (values.json) { for (const result of results) console.log(JSON.stringify(result)); }
    else console.log(`\n${profile.name}\n${formatTable([HEAD, ...results.map(row)])}`);
  }
  const skipped = data.reduce((sum, source) => sum + source.skipped, 0);
  if (!values.json) console.log(`\n${sessions} sessions replayed, ${skipped} lines skipped.`);
}

const HEAD = [
  "data",
  "policy",
  "sessions",
  "calls",
  "vs resend",
  "vs optimum",
  "worst",
  "prompt",
  "hits",
  "epochs",
  "lost refs",
  "lost calls",
];

function row(result: EconomyResult): string[] {
  const percent = (share: number) => `${(100 * share).toFixed(2)}%`;
  return [
    result.data,
    result.policy,
    String(result.sessions),
    String(result.calls),
    result.costVsResend.toFixed(3),
    result.costVsOptimum.toFixed(3),
    result.worstVsResend.toFixed(3),
    result.promptVsResend.toFixed(3),
    percent(result.hitRate),
    String(result.epochs),
    percent(result.lostReferences),
    percent(result.callsWithLostReference),
  ];
}

const BAR_WIDTH = 40;

/** A progress bar on standard error, if that is a terminal; otherwise nothing is drawn. */
class ProgressBar {
  readonly #total: number;
  readonly #visible = Deno.stderr.isTerminal();
  #done = 0;

  constructor(total: number) {
    this.#total = total;
  }

  readonly step = (): void => {
    this.#done++;
    const share = Math.min(1, this.#done / this.#total);
    const filled = Math.round(BAR_WIDTH * share);
    this.#draw(`\r[${"#".repeat(filled)}${" ".repeat(BAR_WIDTH - filled)}] ${this.#done}/${this.#total}`);
  };

  /** Wipes the bar away. */
  clear(): void {
    this.#draw("\r\x1b[K");
  }

  #draw(text: string): void {
    if (this.#visible) Deno.stderr.writeSync(new TextEncoder().encode(text));
  }
}

if (import.meta.main) {
  try {
    await main();
  } catch (error) {
    console.error((error as Error).message);
    Deno.exitCode = 1;
  }
}
