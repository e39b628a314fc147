import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { estimateTokens, type Message } from "@tare/messages";
import { type Archive, memoryArchive } from "@tare/prune";
import { findStretch, makeSummary, type MakeSummaryOptions, type SummaryRequest } from "./make_summary.ts";
import type { Edit } from "./edit.ts";
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
const usage = { promptTokens: 2_000, cachedTokens: 1_900, outputTokens: 9 };

async function made(
  changed: Partial<MakeSummaryOptions> = {},
  { users = [], edits = [] }: { readonly users?: readonly number[]; readonly edits?: readonly Edit[] } = {},
) {
  const stretch = findStretch(placeMessages(messages, edits), { end: 5, users });
  const summary = await makeSummary(stretch, {
    countTokens: estimateTokens,
    archive: memoryArchive(),
    summarize: () => Promise.resolve({ text: "I told two stories.", usage }),
    sent: { messages, tools: [] },
    minGainTokens: 200,
    ...changed,
  });
  const visible = placeMessages(messages, [...edits, summary.edit]).messages;
  return {
    ...summary,
    visible: visible.map(({ role, content }) => `${role}: ${String(content).split("\n")[0]}`),
  };
}

Deno.test("makeSummary() replaces answers by a summary, and returns its usage", async () => {
  const archive = memoryArchive();
  const { edit, visible, usage: paid, failure } = await made({ archive });
  assertEquals([paid, failure], [usage, undefined]);
  assertEquals(visible, [
    "system: Be brief.",
    "user: Tell one.",
    "user: Another.",
    "assistant: I told two stories.",
    "user: And now?",
  ]);
  assertMatch(edit.text, /^I told two stories\.\n\n\[elided: 2 messages, \d+ bytes; ref [0-9a-f]{16}\]$/);
  assertEquals(await archive.get(edit.ref), [2, 4].map((at) => JSON.stringify(messages[at])).join("\n"));
});

Deno.test("makeSummary() includes the user's messages, and separates them in the request", async () => {
  const requests: SummaryRequest[] = [];
  const summarize = (request: SummaryRequest) => {
    requests.push(request);
    return Promise.resolve({ text: "Two stories were asked for and told.", usage });
  };
  const { visible } = await made({ summarize, next: messages[5]! }, { users: [3] });
  assertEquals(visible, [
    "system: Be brief.",
    "user: Tell one.",
    "assistant: Two stories were asked for and told.",
    "user: And now?",
  ]);
  assertEquals(requests, [{
    sent: { messages, tools: [] },
    messages: messages.slice(1, 5),
    users: [messages[3]!],
    next: messages[5]!,
  }]);
});

Deno.test("makeSummary() returns a placeholder and the reason if there is no summary", async () => {
  const line = /^user: \[elided: 2 messages, \d+ bytes; recall with ref [0-9a-f]{16}\]$/;
  const answers: [MakeSummaryOptions["summarize"], string | undefined, number | undefined][] = [
    [undefined, undefined, undefined],
    [() => Promise.reject(new Error("no credit")), "no credit", undefined],
    [() => Promise.resolve({ text: " ", usage }), "the model returned no text", 2_000],
    [
      () => Promise.resolve({ text: story.repeat(2), usage }),
      "the summary frees less than a tenth of the prompt",
      2_000,
    ],
  ];
  for (const [summarize, failure, paid] of answers) {
    const summary = await made({ summarize, recall: true });
    assertEquals([summary.failure, summary.usage?.promptTokens], [failure, paid]);
    assertMatch(summary.visible[3] ?? "", line);
  }
});

Deno.test("makeSummary() keeps an earlier summary if a later one fails, with one placeholder for both", async () => {
  const stretch = findStretch(placeMessages(messages, []), { end: 3 });
  const archive = memoryArchive();
  const { edit } = await makeSummary(stretch, {
    countTokens: estimateTokens,
    archive,
    summarize: () => Promise.resolve({ text: "I told a story.", usage }),
    sent: { messages, tools: [] },
    minGainTokens: 200,
  });
  const later = await made({ archive, summarize: undefined }, { edits: [edit] });
  assertMatch(later.edit.text, /^I told a story\.\n\n\[elided: 2 messages, \d+ bytes; ref [0-9a-f]{16}\]$/);
  assertEquals(later.visible.length, 5);
  // The messages of the first summary can be found from there.
  assert((await archive.get(later.edit.ref))?.includes(edit.ref));
});

Deno.test("makeSummary() rejects with its signal, unless that was a timeout, and without an archive", async () => {
  const summarize = () => new Promise<never>(() => {});
  const cancelled = new Error("cancelled");
  await assertRejects(() => made({ summarize, signal: AbortSignal.abort(cancelled) }), Error, "cancelled");
  const late = new DOMException("too late", "TimeoutError");
  assertEquals((await made({ summarize, signal: AbortSignal.abort(late) })).failure, "too late");
  const archive: Archive = { ...memoryArchive(), put: () => Promise.reject(new Error("the disk is full")) };
  await assertRejects(
    () => made({ archive }),
    Error,
    "Cannot archive 2 messages to summarize: the disk is full",
  );
});
