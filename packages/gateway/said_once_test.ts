import { assertEquals } from "@std/assert";
import { memoryStore } from "@tare/conversation";
import { Accounts, type Days, reportSpend } from "@tare/conversation/report";
import { SaidProof } from "@tare/planner/parts";
import { call, completion, gatewayed, post, READ } from "./fixture_test.ts";

/** A file as a tool shows it, with a number in front of each line. */
const numbered = Array.from({ length: 60 }, (_, at) => `${String(at + 1).padStart(6)}→const a${at} = ${at};`)
  .join("\n");

Deno.test("a gateway counts what came of results, by model and tool, and keeps the counts with the session", async () => {
  const store = memoryStore();
  const proof = new SaidProof();
  const { fetch } = gatewayed(() => completion({ content: "So." }), { store, proof });
  const messages: object[] = [{ role: "user", content: "Go." }];
  // Every id makes another result of it: a tenth of them stays as it came.
  for (let at = 0; at < 30; at++) {
    for (const [name, result] of [["read", numbered], ["edit_file", "Error: no such text."]] as const) {
      const id = `${name}${at}`;
      messages.push(
        { role: "assistant", content: null, tool_calls: [call(name, { path: `${at}.ts` }, id)] },
        { role: "tool", tool_call_id: id, content: result },
      );
      await (await fetch(post({ model: "m", messages, tools: [READ] }))).text();
    }
  }
  const [record] = proof.records;
  const { said, untouched } = record!;
  assertEquals([record!.model, record!.tool, said.results + untouched.results], ["m", "read", 30]);
  assertEquals([said.failedEdits, untouched.failedEdits], [said.results, untouched.results]);

  const [session] = await store.listSessions();
  const { days } = session!.totals as { readonly days: Days };
  assertEquals(Accounts.saidRecords(days), proof.records);
  // Money is of the model, whatever the tool.
  const sessions = [{ id: "s", kind: "gateway", title: "", model: "m", agent: null, days }] as const;
  const { rows } = await reportSpend(
    async function* () {
      yield* sessions;
    }(),
    { by: "model" },
  );
  assertEquals(rows.map(({ key, calls, saidResults }) => [key, calls, saidResults]), [[
    "m",
    60,
    said.results,
  ]]);
});
