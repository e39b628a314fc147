/**
 * What many tools take of a session, by how they are offered: in full, deferred, compact by the planner, or compact at
 * once; with each provider's cache and prices. The tools are those of `github-mcp-server.json` in the folder `--data`;
 * where it isn't there, as many invented ones.
 *
 *     deno task bench:many-tools [--data DIR] [--profile NAME]… [--steps N]
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import type { ToolDefinition } from "@tare/messages";
import { loadTokenizer } from "@tare/messages/tiktoken";
import { profileNamed, PROFILES } from "@tare/planner";
import { formatTable } from "./bench/format_table.ts";
import { inventedTools } from "./bench/many_tools/invented_tools.ts";
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

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      data: { type: "string", default: "../shared/trajectories" },
      profile: { type: "string", multiple: true, default: Object.keys(PROFILES) },
      steps: { type: "string", default: "30" },
    },
  });
  const { count: countTokens } = await loadTokenizer();
  const steps = Number(values.steps);
  if (!(Number.isInteger(steps) && steps > 0)) {
    throw new RangeError(`Cannot use --steps ${values.steps}: it must be a whole number above 0`);
  }
  const tools = readTools(`${values.data}/github-mcp-server.json`);
  console.log(`${tools.length} tools, ${steps} steps.\n`);
  const rows: string[][] = [HEAD];
  for (const profile of values.profile.map(profileNamed)) {
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
