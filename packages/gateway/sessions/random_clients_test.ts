/** Random clients of gateways that are restarted, or take turns on one store, before each request. */
import { assertEquals } from "@std/assert";
import type { JsonRecord } from "@tare/wire";
import fc, { cases } from "../../../tests/cases.ts";
import { sharedMemory } from "../../../tests/shared_memory.ts";
import { call, completion, gatewayed, post, READ } from "../fixture_test.ts";

interface Talk {
  readonly rules: string;
  readonly task: string;
  messages: readonly JsonRecord[];
}

const OPS = [
  ...["step", "step", "step", "step", "answer", "answer", "retry", "clear", "interrupt", "go back", "fork"],
  ...["title", "begin", "begin alike", "subagent"],
] as const;

const client = fc.record({
  tail: fc.constantFrom("none" as const, "messages" as const, "text" as const),
  hasRules: fc.boolean(),
  isKeyed: fc.boolean(),
  acts: fc.array(fc.record({ op: fc.constantFrom(...OPS), who: fc.nat(9), size: fc.nat(9) }), {
    minLength: 2,
    maxLength: 14,
    size: "max",
  }),
});

type Client = typeof client extends fc.Arbitrary<infer Value> ? Value : never;

function requestsOf({ tail, hasRules, isKeyed, acts }: Client): readonly JsonRecord[] {
  const requests: JsonRecord[] = [];
  const talks: Talk[] = [];
  let count = 0;
  const unique = (text: string) => `${text} ${++count}`;
  const user = (text: string) => ({ role: "user", content: unique(text) });
  const send = (rules: string, messages: readonly JsonRecord[], tools?: readonly object[]) => {
    const system = hasRules ? [{ role: "system", content: rules }] : [];
    const body = { model: "m", messages: [...system, ...messages], ...(tools && { tools }) };
    requests.push({ ...body, ...(isKeyed && { prompt_cache_key: "key" }) });
  };
  const turn = ({ rules, messages }: Talk) => {
    const block = user("<<<context>>>\nIt is second number");
    const last = { ...messages.at(-1), content: `${messages.at(-1)!.content}\n\n${block.content}` };
    const sent = { none: messages, messages: [...messages, block], text: [...messages.slice(0, -1), last] };
    send(rules, sent[tail], [READ]);
  };
  const begin = (task: string, rules = "You are an agent.") => {
    talks.push({ rules, task, messages: [{ role: "user", content: task }] });
    turn(talks.at(-1)!);
  };
  const steps = (size: number): readonly JsonRecord[] => {
    const ids = Array.from({ length: 1 + size % 3 }, () => unique("call"));
    return [
      { role: "assistant", content: "", tool_calls: ids.map((id) => call("read", { path: id }, id)) },
      ...ids.map((id) => ({ role: "tool", tool_call_id: id, content: unique("result") })),
    ];
  };
  begin(unique("Do the task number"));
  for (const { op, who, size } of acts) {
    const talk = talks[who % talks.length]!;
    const { messages, task } = talk;
    const replied = messages.findLastIndex(({ role }) => role === "assistant");
    const later = messages.findIndex(({ role }, at) => at > 1 + size % 4 && role === "user");
    const change = (...changed: readonly JsonRecord[]) => {
      talk.messages = changed;
      turn(talk);
    };
    if (op === "step") change(...messages, ...steps(size));
    if (op === "answer") change(...messages, { role: "assistant", content: unique("Done") }, user("And now"));
    if (op === "retry") requests.push(requests.at(-1)!);
    if (op === "begin") begin(unique("Do the task number"));
    if (op === "subagent") begin(task, "You are a subagent.");
    // An equal request without a reply is a retry.
    if (op === "begin alike" && tail !== "none") begin(task);
    // The session of such a title is ambiguous.
    if (op === "title" && talks.filter((one) => one.task === task).length === 1) {
      send("You write titles.", [{ role: "user", content: `Write a title for: ${task}` }]);
    }
    if (op === "clear") {
      const old = messages.filter(({ role }) => role === "tool").slice(0, -2);
      if (old.length < 2) continue;
      change(
        ...messages.map((one) => old.includes(one) ? { ...one, content: "cleared" } : one),
        ...steps(0),
      );
    }
    if (op === "interrupt" && replied > 1) change(...messages.slice(0, replied), user("Go on"));
    if (op === "go back" && later > 0) change(...messages.slice(0, later), user("Do something else"));
    if (op === "fork" && later > 0 && later < messages.length - 1) {
      talks.push({ ...talk, messages: [...messages.slice(0, later), user("Try another way")] });
      turn(talks.at(-1)!);
    }
  }
  return requests;
}

async function sessionsOf(
  requests: readonly JsonRecord[],
  { gateways, isRestarted }: { readonly gateways: number; readonly isRestarted: boolean },
): Promise<readonly number[]> {
  const memory = sharedMemory();
  let nowMs = 0;
  const open = () =>
    gatewayed(() => completion({ content: "Yes." }), { store: memory.open().store, now: () => nowMs });
  const opened = Array.from({ length: gateways }, open);
  const ids: unknown[] = [];
  for (const [at, body] of requests.entries()) {
    nowMs += 1_000;
    const { fetch } = isRestarted ? open() : opened[at % gateways]!;
    const response = await fetch(post(body));
    await response.text();
    ids.push(response.headers.get("x-tare-session"));
  }
  return ids.map((id) => ids.indexOf(id));
}

for (
  const [what, gateways] of Object.entries({
    "a gateway that is restarted before each request": { gateways: 0, isRestarted: true },
    "gateways on one store that take turns": { gateways: 3, isRestarted: false },
  })
) {
  Deno.test(`${what}: random clients have the same sessions as without`, async () => {
    await fc.assert(
      fc.asyncProperty(client, async (client) => {
        const requests = requestsOf(client);
        const expected = await sessionsOf(requests, { gateways: 1, isRestarted: false });
        assertEquals(await sessionsOf(requests, gateways), expected);
      }),
      { numRuns: cases(30) },
    );
  });
}
