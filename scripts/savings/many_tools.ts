// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import type { ToolDefinition } from "@tare/messages";
import { loadTokenizer } from "@tare/tiktoken";
import { profileNamed } from "@tare/planner";
import { PROFILES } from "@tare/planner/internal";
import { formatTable } from "../format_table.ts";
import { inventedTools } from "../../tests/invented_tools.ts";
import { OFFERINGS, type Played, playTools } from "../../tests/many_tools.ts";

const HEAD = [
  ...["provider", "tools", "calls", "of tools", "prompts", "cached"],
  ...["cost units", "of full", "USD", "deferred"],
];

export async function benchTools(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      data: { type: "string", default: "../shared/trajectories" },
      profile: { type: "string", multiple: true, default: Object.keys(PROFILES) },
    },
  });
  const { count: countTokens } = await loadTokenizer();
  const tools = readTools(`${values.data}/github-mcp-server.json`);
  console.log(`${tools.length} tools.\n`);
  const rows: string[][] = [HEAD];
  for (const profile of values.profile.map(profileNamed)) {
    let full: Played | undefined;
    for (const offering of OFFERINGS) {
      const played = await playTools(tools, { profile, offering, countTokens });
      if (offering.name.startsWith("in full")) full = played;
      rows.push([profile.name, offering.name, ...cells(played, full ?? played)]);
    }
  }
  console.log(formatTable(rows));
  console.log(
    "\nof tools: tokens of tool definitions and lists in the first request; cost units: cost of the prompts, one is an " +
      "uncached input token; deferred: tokens omitted by deferring, from the ledger",
  );
}

function cells(played: Played, full: Played): string[] {
  const number = (value: number) => Math.round(value).toLocaleString("en");
  return [
    String(played.calls),
    number(played.toolTokens),
    number(played.promptTokens),
    number(played.cachedTokens),
    number(played.costUnits),
    `${Math.round(100 * played.costUnits / full.costUnits)} %`,
    played.usd === undefined ? "–" : played.usd.toFixed(3),
    number(played.deferredTokens),
  ];
}

function readTools(path: string): readonly ToolDefinition[] {
  try {
    return JSON.parse(Deno.readTextFileSync(path)).tools;
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    console.log(`${path} doesn't exist: using generated tools.`);
    return inventedTools(117);
  }
}
