import { assertEquals } from "@std/assert";
import { PI } from "./drivers/pi.ts";
import { play } from "./play.ts";
import { STANDARD } from "./scenarios.ts";

for (const agent of [PI]) {
  Deno.test(`${agent.name}: ${STANDARD.name}`, async () => {
    const direct = await play(agent, STANDARD, { through: false });
    console.log(direct.files, direct.ended, direct.others, direct.calls.map((c) => [c.status, c.usage, c.asked.tools.length]).slice(-5));
    const through = await play(agent, STANDARD, { through: true });
    const cost = (p: typeof direct) => p.calls.reduce((s, c) => s + c.cost, 0);
    console.log(through.files, through.ended, through.others, through.ledger, cost(through) / cost(direct), through.calls.map((c) => [c.status, c.usage, c.asked.tools.length]).slice(-5));
    assertEquals(through.files, direct.files);
  });
}
