import { assert, assertEquals } from "@std/assert";
import { gateway, type GatewayOptions } from "@tare/gateway";
import { memoryStore } from "@tare/store";
import { SUM_UP } from "../agents_fixture_test.ts";
import {
  type Asked,
  type Dialect,
  DIALECTS,
  play,
  type Played,
  rulesAt,
  type Step,
  turn,
} from "./conversations_fixture_test.ts";

const names = (of: string, count: number) => Array.from({ length: count }, (_, at) => `${of}${at}.ts`);

/** What may happen to a conversation: turns, a recall, a fork, a way back, a summary. */
function conversation(
  dialect: Dialect,
  { stream, changes }: { readonly stream: boolean; readonly changes: boolean },
) {
  const asked: Asked[] = [];
  const ask = (
    { history, reply }: Step,
    more: Partial<Asked> & { readonly tools?: boolean } = {},
  ) => {
    const { tools = true, ...rest } = more;
    const body = dialect.body(history, { rules: rulesAt(changes ? asked.length : 0), tools });
    asked.push({ path: dialect.path, body: { ...body, stream }, reply, ...rest });
  };
  const says = (text: string) => dialect.says("user", text, `msg_${text}`);
  const first = turn(
    dialect,
    dialect.opening("Find the constants in all files of the folder."),
    names("a", 8),
  );
  for (const step of first.steps) ask(step);
  const second = turn(dialect, [...first.after, says("Now sum them up.")], names("b", 6));
  for (const [at, step] of second.steps.entries()) ask(step, { recalls: at === 2 || at === 6 });
  // Another way from the end of the first turn, then from the middle of it.
  const other = turn(dialect, [...first.after, says("Do something else with them.")], names("c", 3));
  for (const step of other.steps) ask(step, { recalls: true });
  ask({
    history: [...first.steps[3]!.history, says("Stop, and begin anew from here.")],
    reply: { text: "Well.", id: "msg_w" },
  });
  // On with the one before, after a while.
  const third = turn(dialect, [...second.after, says("Now write them down.")], names("d", 3));
  for (const [at, step] of third.steps.entries()) ask(step, { pauseMs: at === 0 ? 3_600_000 : 5_000 });
  // The same again, and one that is shorter.
  ask(third.steps.at(-1)!);
  ask(third.steps.at(-2)!, { recalls: true });
  ask(third.steps.at(-1)!);
  // Its client has it summed up, and goes on from the summary.
  const summary = "This is what was said before: " + "a summary of the conversation so far. ".repeat(3);
  ask({ history: [...third.after, says(SUM_UP)], reply: { text: summary, id: "msg_summary" } }, {
    tools: false,
  });
  const fourth = turn(dialect, [says(`What was: ${summary}`), says("Go on.")], names("e", 4));
  for (const step of fourth.steps) ask(step);
  return asked;
}

/** Plays a conversation with one gateway that keeps nothing. */
const whole = (asked: readonly Asked[], dialect: Dialect): Promise<Played> => {
  let one: ReturnType<typeof gateway> | undefined;
  return play(asked, dialect, (_, options) => one ??= gateway(options));
};

/** Plays it with a gateway that is opened anew in front of some requests. */
async function restarted(
  asked: readonly Asked[],
  dialect: Dialect,
  isAnew: (at: number) => boolean,
): Promise<Played> {
  const { conversations } = memoryStore();
  let opened: ReturnType<typeof gateway> | undefined;
  const played = await play(asked, dialect, async (at, options: GatewayOptions) => {
    if (!opened || isAnew(at)) {
      await opened?.close();
      opened = gateway({ ...options, conversations });
    }
    return opened;
  });
  await opened?.close();
  return played;
}

for (const dialect of DIALECTS) {
  for (const stream of [true, false]) {
    for (const changes of [false, true]) {
      const what = `${dialect.name}, ${stream ? "streamed" : "whole"}${
        changes ? ", with rules that change" : ""
      }`;
      Deno.test(`a gateway that is opened anew for each request sends what one sends that never was: ${what}`, async () => {
        const asked = conversation(dialect, { stream, changes });
        const expected = await whole(asked, dialect);
        // Something left, and something was recalled.
        assert(expected.sent.join().includes("[elided: "));
        assert(expected.sent.length > asked.length);
        const { sent, got } = await restarted(asked, dialect, () => true);
        for (const [at, text] of expected.sent.entries()) assertEquals(sent[at], text, `call ${at}`);
        assertEquals([sent.length, got], [expected.sent.length, expected.got]);
      });
    }
  }
}
