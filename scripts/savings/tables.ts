// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import type { CountTokens } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { loadTokenizer } from "@tare/tiktoken";
import { formatTable } from "../format_table.ts";
import { percent } from "./economy.ts";
import { type Half, halfOf } from "./half_of.ts";
import { type Data, loadData } from "./load_data.ts";
import { type MeasureOptions, playSessions, type SessionPlays, toRow } from "./measure_economy.ts";
import { plot } from "./plot.ts";
import { policyNamed } from "./policies/policies.ts";
import { reportsCacheReads } from "./real_bill.ts";

const PROVIDERS = { "anthropic-5m": "Anthropic, 5 min", openai: "OpenAI", deepseek: "DeepSeek" } as const;
const NAMES = Object.keys(PROVIDERS);

/** Policies of docs/savings.md. */
const POLICIES: Readonly<Record<string, string>> = {
  planner: "**planner**",
  "planner-eager": "**planner, eager**",
  "planner-lossless": "**planner, lossless mode**",
  compaction: "compaction at 0.9 of the window",
  "clear-30k-3": "clear all but 3 results, over 30k",
  "mask-10": "mask all but the last 10 results",
};

const CLIENTS: Readonly<Record<string, string>> = {
  "claude-code-entire": "Claude Code",
  "codex-agentv": "Codex",
  "pi-mono": "pi",
};

const SHORT_CALLS = 60;

type Plays = ReadonlyMap<string, readonly SessionPlays[]>;

/**
 * Returns the Markdown tables of docs/savings.md that recordings yield, and its plot. The same recordings yield the same
 * text.
 */
export async function savingsTables(
  data: readonly Data[],
  { countTokens }: { readonly countTokens: CountTokens },
): Promise<{ readonly tables: readonly string[]; readonly svg: string }> {
  const options = { profiles: NAMES, countTokens };
  const plays = await playProviders(data, {
    ...options,
    policies: ["planner", "planner-eager", "planner-lossless"],
  });
  const halfB = data.map((source) => ({
    ...source,
    recordings: source.recordings.filter(({ group }) => halfOf(group) === "B"),
  }));
  const compared = await playProviders(halfB, {
    ...options,
    policies: Object.keys(POLICIES),
    bills: false,
  });
  const [profile = ""] = NAMES;
  const rows = ["resend", ...Object.keys(POLICIES)].map((policy) =>
    toRow({ data: "half B", profile, policy }, compared.get(profile)!)
  );
  return {
    tables: [billTable(plays), policyTable(compared), lengthTable(plays)].map(markdown),
    svg: plot(rows),
  };
}

/** Returns the sessions of agents: their providers report cache reads. */
export function readAgentData(folder: string): readonly Data[] {
  return loadData(folder, { warn: (sentence) => console.error(sentence) })
    .map((source) => ({ ...source, recordings: source.recordings.filter(reportsCacheReads) }))
    .filter(({ recordings }) => recordings.length > 0);
}

async function playProviders(
  data: readonly Data[],
  { profiles, countTokens, ...given }: Pick<MeasureOptions, "policies" | "countTokens" | "bills"> & {
    readonly profiles: readonly string[];
  },
): Promise<Plays> {
  const counted = new Map<string, number>();
  const countOnce: CountTokens = (text) => {
    const tokens = counted.get(text) ?? countTokens(text);
    counted.set(text, tokens);
    return tokens;
  };
  const plays = new Map<string, readonly SessionPlays[]>();
  for (const name of profiles) {
    const options = { ...given, profile: profileNamed(name), countTokens: countOnce };
    plays.set(name, await playSessions(data, options));
  }
  return plays;
}

const inHalf = (half: Half | undefined) => ({ recording }: SessionPlays) =>
  half === undefined || halfOf(recording.group) === half;
const ofPolicy = (policy: string, sessions: readonly SessionPlays[]) =>
  toRow({ data: "", profile: "", policy }, sessions);
const share = (cost: number) => cost.toFixed(2).replace(/^0/, "");
const range = (values: readonly number[], text: (value: number) => string) => {
  const [least, most] = [Math.min(...values), Math.max(...values)].map(text);
  return least === most ? least! : `${least}–${most}`.replace(/ %(?=–)/, "");
};
const change = (before: number, after: number) =>
  share(before) === share(after) ? share(after) : `${share(before)} → ${share(after)}`;

function policyTable(plays: Plays): string[][] {
  const rows = Object.entries(POLICIES).map(([policy, title]) => {
    const rows = NAMES.map((name) => ofPolicy(policy, plays.get(name)!));
    const whole = (value: number) => `${Math.round(100 * value)} %`;
    return [
      title,
      ...rows.map(({ cost0, cost3, editsLostText }) =>
        `${share(cost0)} → ${share(cost3)} @ ${(100 * editsLostText).toFixed(1).replace(/\.0$/, "")} %`
      ),
      range(rows.map(({ worst }) => worst), share),
      range(rows.map(({ unaffected }) => unaffected), whole),
      range(rows.map(({ userTokensGone }) => userTokensGone), whole),
    ];
  });
  return [
    ["policy", ...Object.values(PROVIDERS), "worst session", "sessions without a miss", "user text removed"],
    ...rows,
  ];
}

function billTable(plays: Plays): string[][] {
  const rows = Object.entries(CLIENTS).flatMap(([data, title]) => {
    const sessions = [...plays.values()].flat().filter((one) => one.data === data && one.bill);
    if (sessions.length === 0) return [];
    const bill = (policy: string, some: readonly SessionPlays[]) => ofPolicy(policy, some).bill;
    const cell = (policy: string, some: readonly SessionPlays[]) => {
      const its = bill(policy, some);
      return its ? change(its.cost0, its.cost3) : "–";
    };
    return [[
      title,
      String(sessions.length),
      cell("planner", sessions),
      cell("planner", longestThird(sessions)),
      cell("planner", sessions.filter(isShort)),
      share(bill("planner", sessions)!.worst),
      cell("planner-eager", sessions),
      cell("planner-lossless", sessions),
    ]];
  });
  return [
    [
      "of what was paid",
      "sessions",
      "planner",
      "longest third",
      `up to ${SHORT_CALLS} calls`,
      "worst session",
      "eager",
      "lossless mode",
    ],
    ...rows,
  ];
}

const isShort = ({ recording }: SessionPlays) => recording.calls.length <= SHORT_CALLS;

function longestThird(sessions: readonly SessionPlays[]): readonly SessionPlays[] {
  return sessions.toSorted((a, b) => b.recording.calls.length - a.recording.calls.length)
    .slice(0, Math.ceil(sessions.length / 3));
}

const LENGTHS = [
  ["up to 25 calls", 1, 25],
  ["26 to 60", 26, 60],
  ["61 to 120", 61, 120],
  ["over 120", 121, Infinity],
] as const;

function lengthTable(plays: Plays): string[][] {
  const sessions = plays.get("anthropic-5m")!.filter(({ data }) => data === "claude-code-entire");
  const byLength = LENGTHS.map(([, least, most]) =>
    sessions.filter(({ recording: { calls } }) => least <= calls.length && calls.length <= most)
  );
  const row = (title: string, cell: (some: readonly SessionPlays[]) => string) => [
    title,
    ...byLength.map((some) => some.length === 0 ? "–" : cell(some)),
  ];
  const costs = (policy: string) => (some: readonly SessionPlays[]) => {
    const { cost0, cost3 } = ofPolicy(policy, some);
    return change(cost0, cost3);
  };
  return [
    ["Claude Code's sessions, Anthropic", ...LENGTHS.map(([title]) => title)],
    row("sessions", ({ length }) => String(length)),
    row("planner", costs("planner")),
    row("worst session", (some) => share(ofPolicy("planner", some).worst)),
    row("eager", costs("planner-eager")),
    row("lossless mode", costs("planner-lossless")),
  ];
}

/** Formats rows as `deno fmt` does. */
function markdown(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const line = (row: readonly string[]) =>
    `| ${row.map((cell, column) => cell.padEnd(widths[column]!)).join(" | ")} |`;
  const [head, ...others] = rows;
  return [line(head!), line(widths.map((width) => "-".repeat(width))), ...others.map(line)].join("\n");
}

/** Prints the tables of docs/savings.md, and draws its plot with `--plot`. */
export async function benchTables(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: { data: { type: "string" }, plot: { type: "string" } },
  });
  const { count: countTokens } = await loadTokenizer();
  const { tables, svg } = await savingsTables(readAgentData(needed(values.data)), { countTokens });
  console.log(tables.join("\n\n"));
  if (values.plot !== undefined) Deno.writeTextFileSync(values.plot, svg);
}

/** Sources whose bills are compared: the providers' own agents. */
const AGENTS_OF_PROVIDERS = /^(?:claude-code|codex)/;

/** Prints a line per half, provider and policy: costs, losses, short and worst sessions, share of real bills. */
export async function benchComparison(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      data: { type: "string" },
      policy: { type: "string", multiple: true, default: ["planner"] },
      profile: { type: "string", multiple: true, default: [...NAMES] },
      json: { type: "boolean", default: false },
    },
  });
  for (const policy of values.policy) policyNamed(policy);
  const { count: countTokens } = await loadTokenizer();
  const plays = await playProviders(readAgentData(needed(values.data)), {
    profiles: values.profile,
    policies: values.policy,
    countTokens,
  });
  const rows = values.policy.flatMap((policy) =>
    ([undefined, "A", "B"] as const).flatMap((half) =>
      values.profile.map((profile) => {
        const sessions = plays.get(profile)!.filter(inHalf(half));
        const billed = sessions.filter(({ data, bill }) => bill && AGENTS_OF_PROVIDERS.test(data));
        const { bill } = ofPolicy(policy, billed);
        const longest = longestThird(billed);
        return {
          ...toRow({ data: half ?? "all", profile, policy }, sessions),
          bill,
          short3: ofPolicy(policy, sessions.filter(isShort)).cost3,
          longestBill3: ofPolicy(policy, longest).bill?.cost3,
        };
      })
    )
  );
  const cost = (value: number | undefined) => value?.toFixed(3) ?? "–";
  if (values.json) { for (const row of rows) console.log(JSON.stringify(row)); }
  else {
    console.log(formatTable([
      [
        "policy",
        "profile",
        "half",
        "×0",
        "×1",
        "×3",
        "lost edits",
        "worst",
        `≤ ${SHORT_CALLS} calls`,
        "of bill",
        "×3",
        "longest",
      ],
      ...rows.map(({ policy, profile, data, bill, ...row }) => [
        policy,
        profile,
        data,
        ...[row.cost0, row.cost1, row.cost3].map(cost),
        percent(row.editsLostText),
        ...[row.worst, row.short3, bill?.cost0, bill?.cost3, row.longestBill3].map(cost),
      ]),
    ]));
  }
}

function needed(folder: string | undefined): string {
  if (folder !== undefined) return folder;
  throw new RangeError("Cannot replay sessions: --data is missing. Set it to a folder of recordings.");
}
