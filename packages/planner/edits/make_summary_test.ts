import { assertEquals, assertMatch } from "@std/assert";
import { estimateTokens, type Message } from "@tare/messages";
import { memoryArchive } from "@tare/prune";
import type { Edit } from "./edit.ts";
import { makeSummary, type MakeSummaryOptions } from "./make_summary.ts";
import { placeMessages } from "./view.ts";

const story = "Once upon a time. ".repeat(200);
const messages: readonly Message[] = [
  { role: "system", content: "Be brief." },
  { role: "user", content: "Tell one." },
  { role: "assistant", content: story },
  { role: "user", content: "Another." },
  { role: "assistant", content: story },
  { role: "user", content: "And now?" },
];
const usage = { promptTokens: 2_000, cachedTokens: 0, outputTokens: 9 };
const options: MakeSummaryOptions = {
  countTokens: estimateTokens,
  archive: memoryArchive(),
  windowTokens: 1_000,
  summarise: () => Promise.resolve({ text: "I told two stories.", usage }),
};

async function made(
  history: readonly Message[],
  changed: Partial<MakeSummaryOptions> = {},
  edits: readonly Edit[] = [],
) {
  const { edit, ...rest } = await makeSummary(placeMessages(history, edits), { ...options, ...changed });
  return {
    stretch: edit && `${edit.type} ${edit.from}-${edit.to}`,
    text: edit && "text" in edit ? edit.text : "",
    ...rest,
  };
}

Deno.test("makeSummary() summarises the old turns of a history, and says what it took", async () => {
  const { stretch, text, usage: paid, warning } = await made(messages);
  assertEquals([stretch, paid, warning], ["summarise 1-5", usage, undefined]);
  assertMatch(text, /^I told two stories\./);
});

Deno.test("makeSummary() counts positions in the history, not in the view", async () => {
  const longer = [...messages.slice(0, 1), ...messages.slice(1, 3), ...messages.slice(1)];
  const drop: Edit = { type: "drop", from: 1, to: 3, ref: "r", text: "[gone]" };
  assertEquals((await made(longer, {}, [drop])).stretch, "summarise 3-7");
});

Deno.test("makeSummary() drops the turns if nobody summarises, and says why if the summary fails", async () => {
  const { summarise: _, ...silent } = options;
  const dropped = await makeSummary(placeMessages(messages, []), silent);
  assertEquals([dropped.edit?.type, dropped.warning], ["drop", undefined]);
  const failed = await made(messages, { summarise: () => Promise.reject(new Error("no credit")) });
  assertEquals(failed.stretch, "drop 1-5");
  assertMatch(failed.warning ?? "", /no credit/);
});

Deno.test("makeSummary() leaves a history alone whose calls are answered in a later turn, or not yet", async () => {
  const call: Message = {
    role: "assistant",
    tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: "{}" } }],
  };
  const result: Message = { role: "tool", tool_call_id: "1", content: "late" };
  const open = [...messages.slice(0, 2), call, ...messages.slice(2)];
  assertEquals((await made(open)).stretch, undefined);
  assertEquals((await made([...open.slice(0, 5), result, ...open.slice(5)])).stretch, undefined);
});
