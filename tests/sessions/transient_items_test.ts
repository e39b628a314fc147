/**
 * Tests of items that clients append to one request and remove from the next: reminders, contexts, reasoning of a
 * broken stream.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { gateway, type HttpGateway } from "@tare/gateway";
import { memoryStore } from "@tare/session/sqlite";
import {
  BASH,
  chatStep,
  codexOpening,
  codexRequest,
  codexStep,
  type Json,
  longResult,
} from "../../packages/gateway/agents_fixture_test.ts";
import { completion, gatewayed, OPTIONS, post } from "../../packages/gateway/fixture_test.ts";
import {
  play,
  type SentRequest,
  type Step,
  turn,
} from "../../packages/gateway/sessions/conversations_fixture_test.ts";
import { type Dialect, DIALECTS } from "../../packages/gateway/sessions/dialects_fixture_test.ts";
import { responsesUpstream } from "../../packages/gateway/responses_fixture_test.ts";

const blockAt = (at: number) =>
  `<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nIt is minute ${at}.\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>`;

function withText(item: Json, text: string): Json {
  const { content, output } = item;
  if (typeof output === "string") return { ...item, output: `${output}\n\n${text}` };
  if (!Array.isArray(content)) return { ...item, content: `${content}\n\n${text}` };
  const type = item.type === "message" ? "input_text" : "text";
  return { ...item, content: [...content, { type, text }] };
}

const TAILS: Readonly<
  Record<string, (history: readonly Json[], at: number, dialect: Dialect) => readonly Json[]>
> = {
  "an item": (history, at, dialect) => [...history, dialect.message("user", blockAt(at), `msg_context${at}`)],
  "text in the last item": (history, at) => [...history.slice(0, -1), withText(history.at(-1)!, blockAt(at))],
};

function requests(
  dialect: Dialect,
  tail: (typeof TAILS)[string],
  headers: Record<string, string>,
): SentRequest[] {
  const names = (of: string, count: number) => Array.from({ length: count }, (_, at) => `${of}${at}.ts`);
  const first = turn(
    dialect,
    dialect.opening("Find the constants in all files of the folder."),
    names("a", 8),
  );
  const next = [...first.after, dialect.message("user", "Now sum them up.", "msg_next")];
  const second = turn(dialect, next, names("b", 12));
  return [...first.steps, ...second.steps].map(({ history, reply }: Step, at): SentRequest => ({
    path: dialect.path,
    body: {
      ...dialect.body(tail(history, at, dialect), { rules: "You are a coding agent.", tools: true }),
      stream: true,
    },
    headers,
    reply,
    ...(at % 7 === 6 && { recalls: "seen" }),
  }));
}

for (const dialect of DIALECTS) {
  for (const [what, tail] of Object.entries(TAILS)) {
    Deno.test(`sessions: requests that end in changing context continue a session: ${dialect.name}, ${what}`, async () => {
      const played = async (headers: Record<string, string>, isRestarted = false) => {
        const store = memoryStore();
        let one: HttpGateway | undefined;
        return await play(requests(dialect, tail, headers), dialect, async (at, options) => {
          // A first message that ends in another text is recognized after a restart once it has been answered.
          if (isRestarted && at > 1) {
            await one?.close();
            one = undefined;
          }
          return one ??= gateway({ ...options, store });
        });
      };
      for (const isRestarted of [false, true]) {
        const expected = await played({ "x-tare-session": "mine" }, isRestarted);
        assertMatch(expected.sent.join(), /\[elided: [^\]]*\bref [0-9a-f]{16}\]/);
        assert(expected.sent.length > expected.places.length);
        const { sent, places } = await played({}, isRestarted);
        assertEquals(new Set(places.map(({ session }) => session)).size, 1);
        for (const [at, text] of expected.sent.entries()) assert(sent[at] === text, `call ${at}`);
      }
    });
  }
}

Deno.test("sessions: Codex' session continues after a stream that breaks after reasoning", async () => {
  const { fetch } = gateway({ ...OPTIONS, fetch: responsesUpstream([]).fetch });
  const sessions = new Set<string | null | undefined>();
  const ask = async (input: readonly Json[]) => {
    const response = await fetch(codexRequest(input));
    await response?.text();
    sessions.add(response?.headers.get("x-tare-session"));
  };
  const opening = codexOpening("Find the constants.");
  const thought = (name: string) => codexStep(name, "")[0]!;
  await ask(opening);
  await ask([...opening, thought("a")]);
  const step = [...opening, thought("a"), ...codexStep("b", longResult("b"))];
  await ask(step);
  await ask([...step, thought("c")]);
  await ask([...step, ...codexStep("d", longResult("d"))]);
  assertEquals(sessions.size, 1);
});

Deno.test("sessions: conversations with titles and subagents between their requests are separate", async () => {
  const { fetch, sessions } = gatewayed(() => completion({ content: "Go on." }));
  const ask = async (messages: readonly object[], tools?: readonly object[]) => {
    const response = await fetch(post({ model: "m", messages, ...(tools && { tools }) }));
    await response.text();
    return response.headers.get("x-tare-session");
  };
  const system = (content: string) => ({ role: "system", content });
  const user = (content: string) => ({ role: "user", content });
  const main = [system("You are an agent."), user("Find the four constants of the folder src/.")];
  const subagent = [system("You explore a folder."), user("Find the four constants of the folder src/.")];
  const title = [system("You write titles."), user("Title: Find the four constants of the folder src/.")];
  const found: (string | null)[][] = [[], []];
  for (let step = 0; step < 6; step++) {
    for (const [at, messages] of [main, subagent].entries()) {
      found[at]!.push(await ask(messages, [BASH]));
      messages.push(
        ...chatStep(`${at}-${step}.ts`, longResult(`${step}`)) as { role: string; content: string }[],
      );
      await ask(title);
    }
  }
  assertEquals(found.map((ids) => new Set(ids).size), [1, 1]);
  assert(found[0]![0] !== found[1]![0]);
  assertEquals((await sessions.ledger({})).planned.sessions, 2);
});

Deno.test("sessions: requests that are no turns and about no session begin none", async () => {
  const { fetch, ledger } = gatewayed(() => completion({ content: "I" }));
  const messages = [{ role: "user", content: "quota" }];
  const response = await fetch(post({ model: "m", messages, max_completion_tokens: 1 }));
  assertEquals([response.headers.get("x-tare-session"), (await response.json()).choices.length], [null, 1]);
  assertEquals((await ledger()).planned.sessions, 0);
});
