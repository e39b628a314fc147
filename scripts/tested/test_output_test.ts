import { assertEquals } from "@std/assert";
import { BUBBLEWRAP, NOT_ROOT } from "../../tests/needs.ts";
import { add, NONE, readTestOutput, resultTable } from "./test_output.ts";

async function resultOf(source: string) {
  const folder = await Deno.makeTempDir();
  await Deno.writeTextFile(`${folder}/a_test.ts`, source);
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["test", "--no-config", "--no-lock", "--no-check", folder],
  }).output();
  await Deno.remove(folder, { recursive: true });
  const output = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes)).join("");
  return readTestOutput(output, { success });
}

Deno.test("readTestOutput() counts passed, failed and ignored tests, by requirement", async () => {
  const { passed, failed, skipped } = await resultOf(`
    Deno.test("a", () => {});
    Deno.test("b", () => { throw new Error("ok | 7 passed | 0 failed (1s)"); });
    Deno.test({ name: "c (needs bubblewrap)", ignore: true, fn() {} });
    Deno.test({ name: "d (needs bubblewrap)", ignore: true, fn() {} });
    Deno.test({ name: "e (needs a user other than root)", fn() {} });
    Deno.test({ name: "f", ignore: true, fn() {} });
  `);
  assertEquals([passed, failed], [2, 1]);
  assertEquals([...skipped], [[BUBBLEWRAP.what, 2], ["something that its name doesn't state", 1]]);
});

Deno.test("readTestOutput() counts a command that ends without a result as a failure", async () => {
  assertEquals((await resultOf("throw new Error();")).failed, 1);
  assertEquals(readTestOutput("", { success: false }), { ...NONE, failed: 1 });
  assertEquals(readTestOutput("added 3 packages in 2s\n", { success: true }), NONE);
});

Deno.test("resultTable() ends with the number of skipped tests per requirement", () => {
  const result = { passed: 3, failed: 0, skipped: new Map([[NOT_ROOT.what, 1], [BUBBLEWRAP.what, 2]]) };
  const rows = [
    { suite: "fast", result, seconds: 61.4 },
    { suite: "page", result: add(result, { ...NONE, failed: 2 }), seconds: 2 },
    { suite: "agents", result: NONE, seconds: 0, reason: "only if named" },
  ];
  assertEquals(
    resultTable(rows, (need) => need === BUBBLEWRAP.what ? BUBBLEWRAP.how : undefined),
    `suite          passed   failed  skipped  seconds
fast                3        0        3       61
page                3        2        3        2
agents              0        0        0        0  only if named
total               6        2        6       63
4 skipped: needs bubblewrap (apt-get install bubblewrap)
2 skipped: needs a user other than root`,
  );
});
