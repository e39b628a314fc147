/**
 * Prints the ledger's account of each scenario of the simulated agents against both bills, as a Markdown
 * table: `deno run -A tests/agents/ledger_table.ts [SCENARIO]`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { accountOf } from "./simulated_play.ts";
import { SIMULATED_AGENTS, SIMULATED_SCENARIOS } from "./simulated_scenarios.ts";

const [wanted = ""] = Deno.args;
const row = (cells: readonly string[]) => console.log(`| ${cells.join(" | ")} |`);
const whole = (units: number) => Math.round(units).toLocaleString("en");
row([
  "scenario",
  "agent",
  "direct",
  "through",
  "saved",
  "claimed",
  "recorded",
  "recorded, % off the bill",
  "claim, % of the bill off",
  "claim, % of the saving off",
  "compactions",
]);
row(Array<string>(11).fill("---"));
for (const scenario of SIMULATED_SCENARIOS.filter(({ name }) => name.includes(wanted))) {
  for (const agent of SIMULATED_AGENTS) {
    const { direct, through, recorded, claimed, compactions } = await accountOf(agent, scenario);
    const saved = direct - through;
    const share = (off: number, of: number) => (100 * off / Math.abs(of)).toFixed(2);
    row([
      scenario.name,
      agent.name,
      ...[direct, through, saved, claimed, recorded].map(whole),
      share(recorded - through, through),
      share(claimed - saved, direct),
      share(claimed - saved, saved),
      compactions.join(" → "),
    ]);
  }
}
