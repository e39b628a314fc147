import { assertEquals, assertLessOrEqual, assertStringIncludes } from "@std/assert";
import { loadTokenizer } from "@tare/tiktoken";
import { UNSEEN_BILL, UNSEEN_COSTS } from "../../../packages/cli/measured_savings.ts";
import { halfOf } from "../../../scripts/savings/half_of.ts";
import { readAgentData, savingsTables } from "../../../scripts/savings/tables.ts";
import { needs, RECORDINGS } from "../../needs.ts";
import { RECORDED } from "../../recorded_sessions.ts";

function tablesOf(text: string): Map<string, string[][]> {
  const tables = text.matchAll(/(?:^\|.*\n)+/gm).map(([table]) =>
    table.trim().split("\n").map((line) => line.split("|").slice(1, -1).map((cell) => cell.trim()))
      .filter((cells) => !cells.every((cell) => /^-+$/.test(cell)))
  );
  return new Map(tables.map((rows) => [rows[0]![0]!, rows]));
}

Deno.test({
  ...needs(
    RECORDINGS,
    "docs/savings.md: its tables are those of bench savings tables, and claims don't exceed them",
  ),
  async fn() {
    const { count: countTokens } = await loadTokenizer();
    const data = readAgentData(RECORDED!);
    const { tables, svg } = await savingsTables(data, { countTokens });
    const text = Deno.readTextFileSync(new URL("../../../docs/savings.md", import.meta.url));
    const sessions = data.flatMap(({ recordings }) => recordings);
    assertStringIncludes(text, `${sessions.length} sessions`);
    const halfB = sessions.filter(({ group }) => halfOf(group) === "B");
    const calls = halfB.reduce((sum, { calls }) => sum + calls.length, 0).toLocaleString("en");
    assertStringIncludes(text, `Half B: ${halfB.length} sessions with ${calls} calls.`);
    const document = tablesOf(text);
    const printed = tablesOf(tables.map((table) => `${table}\n`).join("\n"));
    assertEquals(printed.size, 3);
    assertEquals(Deno.readTextFileSync(new URL("../../../docs/economy.svg", import.meta.url)), svg);
    for (const [head, rows] of printed) assertEquals(document.get(head), rows, head);

    const costOf = (cell = "") => Number(/([\d.]+)(?: @.*)?$/.exec(cell)?.[1]);
    const planner = printed.get("policy")!.find(([name]) => name === "**planner**")!;
    for (const [at, { cost }] of Object.values(UNSEEN_COSTS).entries()) {
      assertLessOrEqual(costOf(planner[at + 1]), cost + 0.01);
    }
    const bill = printed.get("of what was paid")!.find(([client]) => client === "Claude Code")!;
    assertLessOrEqual(costOf(bill[2]), UNSEEN_BILL.cost);
  },
});
