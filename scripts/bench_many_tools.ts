/**
 * What many tools take of a session, by how they are offered: in full, deferred, compact by the planner, or compact at
 * once; with each provider's cache and prices. The tools are those of `github-mcp-server.json` in the folder `--data`;
 * where it isn't there, as many invented ones.
 *
 * With `--own` it is about the server's own tools in the sessions that are recorded there: what it
 * would be worth to leave out the prose of those that are seldom used, or all of them, from the first request on.
 *
 *     deno task bench:many-tools [--data DIR] [--profile NAME]… [--steps N | --own]
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import type { CountTokens, ToolDefinition } from "@tare/messages";
import { loadTokenizer } from "@tare/tiktoken";
import { type Profile, profileNamed, PROFILES } from "@tare/planner";
import { loadData } from "./bench/economy/load_data.ts";
import { formatTable } from "./bench/format_table.ts";
import { inventedTools } from "./bench/many_tools/invented_tools.ts";
import { playOwnTools } from "./bench/many_tools/own_tools.ts";
import { OFFERINGS, type Played, playTools } from "./bench/many_tools/play_tools.ts";

const HEAD = [
  "provider",
  "tools",
  "calls",
  "of tools",
  "prompts",
  "cached",
  "units",
  "of full",
  "USD",
  "saved",
];

/** Sources of sessions in which nobody works on files. */
const NO_FILES = /^tau/;

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      data: { type: "string", default: "../shared/trajectories" },
      profile: { type: "string", multiple: true, default: Object.keys(PROFILES) },
      steps: { type: "string", default: "30" },
      own: { type: "boolean", default: false },
    },
  });
  const { count: countTokens } = await loadTokenizer();
  const profiles = values.profile.map(profileNamed);
  if (values.own) await printOwnTools(profiles, { data: values.data, countTokens });
  else await printManyTools(profiles, { ...values, countTokens });
}

async function printManyTools(
  profiles: readonly Profile[],
  { data, countTokens, ...values }: {
    readonly data: string;
    readonly steps: string;
    readonly countTokens: CountTokens;
  },
): Promise<void> {
  const steps = Number(values.steps);
  if (!(Number.isInteger(steps) && steps > 0)) {
    throw new RangeError(`Cannot use --steps ${values.steps}: it must be a whole number above 0`);
  }
  const tools = readTools(`${data}/github-mcp-server.json`);
  console.log(`${tools.length} tools, ${steps} steps.\n`);
  const rows: string[][] = [HEAD];
  for (const profile of profiles) {
    let full: Played | undefined;
    for (const offering of OFFERINGS) {
      const played = await playTools(tools, { profile, offering, countTokens, steps });
      full ??= played;
      rows.push([profile.name, offering.name, ...cells(played, full)]);
    }
  }
  console.log(formatTable(rows));
  console.log(
    "\nof tools: tokens of the first request that are definitions or tell of them; units: cost of the prompts in " +
      "uncached input tokens; saved: tokens kept out by deferring, by the server's own ledger",
  );
}

async function printOwnTools(
  profiles: readonly Profile[],
  { data, countTokens }: { readonly data: string; readonly countTokens: CountTokens },
): Promise<void> {
  const recordings = loadData(data, { warn: (sentence) => console.error(sentence) })
    .flatMap(({ name, recordings }) => NO_FILES.test(name) ? [] : recordings);
  const rows = [["provider", "own tools", "tokens", "sessions that use them", "at least", "at most"]];
  for (const profile of profiles) {
    for (
      const { name, toolTokens, using, least, most } of await playOwnTools(recordings, {
        profile,
        countTokens,
      })
    ) {
      const share = `${Math.round(100 * using)} %`;
      rows.push([profile.name, name, String(toolTokens), share, least.toFixed(4), most.toFixed(4)]);
    }
  }
  console.log(formatTable(rows));
  console.log(
    `\n${recordings.length} sessions; cost of prompts and replies relative to all tools in full: where nothing is looked ` +
      "up and no call fails for its prose, and where each that is seldom used is, once.",
  );
}

function cells(played: Played, full: Played): string[] {
  const number = (value: number) => Math.round(value).toLocaleString("en");
  return [
    String(played.calls),
    number(played.toolTokens),
    number(played.promptTokens),
    number(played.cachedTokens),
    number(played.tokenUnits),
    `${Math.round(100 * played.tokenUnits / full.tokenUnits)} %`,
    played.usd === undefined ? "–" : played.usd.toFixed(3),
    number(played.deferredTokens),
  ];
}

function readTools(path: string): readonly ToolDefinition[] {
  try {
    return JSON.parse(Deno.readTextFileSync(path)).tools;
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    console.log(`${path} is not there: the tools are invented.`);
    return inventedTools(117);
  }
}
