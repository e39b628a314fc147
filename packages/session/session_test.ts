import { assertEquals, assertThrows } from "@std/assert";
import { Session } from "@tare/session/internal";
import { reportCall } from "@tare/session/internal/report";
import { estimateTokens, type Message } from "@tare/messages";
import { memoryArchive } from "@tare/prune";
import { plannerSession, profileNamed } from "@tare/planner";

const profile = profileNamed("none");

function newConversation(): Session {
  const archive = memoryArchive();
  const countTokens = estimateTokens;
  return new Session({
    ...{ id: "c", archive, countTokens },
    prompts: plannerSession({ profile, archive, countTokens, truncateTokens: 100 }),
  });
}

const user = (content: string): Message => ({ role: "user", content });

const WITH_RESULT: readonly Message[] = [
  user("Look."),
  {
    role: "assistant",
    content: null,
    tool_calls: [{ id: "1", type: "function", function: { name: "look", arguments: "{}" } }],
  },
  {
    role: "tool",
    tool_call_id: "1",
    content: Array.from({ length: 1_000 }, (_, line) => `line ${line}`).join("\n"),
  },
];

Deno.test("Session reports the rewrites of a turn with its call", async () => {
  const conversation = newConversation();
  conversation.addRequest("m");
  conversation.setTitle("Look.");
  const history = { messages: WITH_RESULT, tools: [] };
  const view = await conversation.view(history, { nowMs: 7, recall: true });
  const usage = { promptTokens: 200, cachedTokens: 0, outputTokens: 5 };
  const { title, model, epoch, rewrites, unsent } = conversation.state;
  assertEquals([title, model, epoch, rewrites.map(({ mechanism, atMs }) => [mechanism, atMs])], [
    "Look.",
    "m",
    1,
    [["truncate", 7]],
  ]);
  assertEquals(conversation.newest?.view, view);
  const ledger = conversation.sent(usage, view);
  const call = { number: 1, at: null, turn: null, purpose: "turn", rates: { profile }, ledger };
  conversation.note(reportCall(usage, { ...call, rewrites: unsent }));
  conversation.recordTotals({ calls: 1 }, 0);
  assertEquals(conversation.calls.map(({ rewrites }) => rewrites.length), [1]);
  assertEquals([conversation.state.unsent, conversation.state.days["1970-01-01 m"]?.calls], [[], 1]);
});

Deno.test("Session changes nothing for a request that is no turn", async () => {
  const conversation = newConversation();
  const { state, prompt } = conversation;
  const before = [state, prompt.state];
  await conversation.view({ messages: [user("Sum it up.")], tools: [] }, { nowMs: 0, oneShot: true });
  await conversation.planOneShot(0).view({ messages: [user("Title?")], tools: [] }, {
    nowMs: 0,
    oneShot: true,
  });
  assertEquals([conversation.state, conversation.prompt.state], before);
  assertEquals(conversation.newest, undefined);
});

Deno.test("Session.fork() retains the pins of shared messages and no totals", () => {
  const conversation = newConversation();
  const messages = [user("one"), user("two")];
  for (const place of [0, 1]) {
    conversation.pin({ set: conversation.makePin(messages, { place, wish: "retain" }) });
  }
  conversation.recordTotals({ calls: 3 }, 0);
  const { archive } = conversation;
  const fork = conversation.fork(1, { id: "f", archive });
  assertEquals([fork.id, fork.state.pins.map(({ place }) => place), fork.state.days], ["f", [0], {}]);
  conversation.pin({ remove: 0 });
  assertEquals(conversation.state.pins.map(({ place }) => place), [1]);
  assertThrows(() => conversation.makePin(messages, { place: 9, wish: "retain" }), RangeError);
});
