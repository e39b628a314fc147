import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { type Gateway, gateway, type GatewayOptions } from "@tare/gateway";
import { memoryStore, openStore, type Store } from "@tare/store";
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

/** How a client asks. */
interface Manner {
  readonly name: string;
  readonly stream: boolean;
  /** Whether a line of the rules is another one each time. */
  readonly changes?: boolean;
  /** Fields of the body, and headers, by which it names what it asks about. */
  readonly fields?: Readonly<Record<string, unknown>>;
  readonly headers?: Record<string, string>;
}

const MANNERS: readonly Manner[] = [
  { name: "streamed", stream: true },
  { name: "whole, with rules that change", stream: false, changes: true },
  { name: "streamed, by name", stream: true, headers: { "x-tare-session": "mine" } },
  {
    name: "streamed, under a key, with rules that change",
    stream: true,
    changes: true,
    fields: { prompt_cache_key: "k", metadata: { user_id: "k" } },
  },
];

const names = (of: string, count: number) => Array.from({ length: count }, (_, at) => `${of}${at}.ts`);

/** What may happen to a conversation: turns, recalls, a fork, a way back, a summary. */
function conversation(dialect: Dialect, { stream, changes = false, fields, headers = {} }: Manner): Asked[] {
  const asked: Asked[] = [];
  const ask = (
    { history, reply }: Step,
    { tools = true, ...more }: Partial<Asked> & { readonly tools?: boolean } = {},
  ) => {
    const body = dialect.body(history, { rules: rulesAt(changes ? asked.length : 0), tools });
    asked.push({ path: dialect.path, body: { ...body, stream, ...fields }, reply, headers, ...more });
  };
  const says = (text: string) => dialect.says("user", text, `msg_${text}`);
  const first = turn(
    dialect,
    dialect.opening("Find the constants in all files of the folder."),
    names("a", 8),
  );
  for (const step of first.steps) ask(step);
  const second = turn(dialect, [...first.after, says("Now sum them up.")], names("b", 6));
  for (const [at, step] of second.steps.entries()) ask(step, at === 2 || at === 6 ? { recalls: "seen" } : {});
  // Another way from the end of the first turn, then from the middle of it.
  const other = turn(dialect, [...first.after, says("Do something else with them.")], names("c", 3));
  for (const step of other.steps) ask(step, { recalls: "seen" });
  const stopped = says("Stop, and begin anew from here.");
  ask({ history: [...first.steps[3]!.history, stopped], reply: { text: "Well.", id: "msg_w" } });
  // On with the one before, after a while.
  const third = turn(dialect, [...second.after, says("Now write them down.")], names("d", 3));
  for (const [at, step] of third.steps.entries()) ask(step, { pauseMs: at === 0 ? 3_600_000 : 5_000 });
  // The same again, and one that is shorter.
  ask(third.steps.at(-1)!);
  ask(third.steps.at(-2)!, { recalls: "seen" });
  ask(third.steps.at(-1)!);
  // Its client has it summed up, and goes on from the summary; what left before can still be recalled.
  const summary = "This is what was said before: " + "a summary of the conversation so far. ".repeat(3);
  const summing = { history: [...third.after, says(SUM_UP)], reply: { text: summary, id: "msg_summary" } };
  ask(summing, { tools: false });
  const fourth = turn(dialect, [says(`What was: ${summary}`), says("Go on.")], names("e", 4));
  for (const step of fourth.steps) ask(step, { recalls: "ever" });
  return asked;
}

/** Plays a conversation with one gateway that keeps nothing. */
function whole(asked: readonly Asked[], dialect: Dialect): Promise<Played> {
  let one: Gateway | undefined;
  return play(asked, dialect, (_, options) => one ??= gateway(options));
}

/** Plays it with gateways on one store. `gatewayAt` says which of them is asked, and whether it was opened anew. */
async function played(
  asked: readonly Asked[],
  dialect: Dialect,
  { store, gatewayAt }: {
    readonly store: () => Promise<Store> | Store;
    readonly gatewayAt: (at: number) => { readonly which?: number; readonly isAnew?: boolean };
  },
): Promise<Played> {
  const open = new Map<number, Gateway>();
  const all = await play(asked, dialect, async (at, options: GatewayOptions) => {
    const { which = 0, isAnew = false } = gatewayAt(at);
    const { conversations } = await store();
    const opened = isAnew ? undefined : open.get(which);
    const now = opened ?? gateway({ ...options, conversations });
    open.set(which, now);
    return now;
  });
  await Promise.all(Array.from(open.values(), (one) => one.close()));
  return all;
}

function assertSame(actual: Played, expected: Played): void {
  for (const [at, text] of expected.sent.entries()) assertEquals(actual.sent[at], text, `call ${at}`);
  assertEquals([actual.sent.length, actual.got], [expected.sent.length, expected.got]);
}

for (const dialect of DIALECTS) {
  for (const manner of MANNERS) {
    const of = `${dialect.name}, ${manner.name}`;
    const asked = conversation(dialect, manner);
    Deno.test(`gateways that are killed after each answer send what one sends that never was: ${of}`, async () => {
      const expected = await whole(asked, dialect);
      // Something left, and something was recalled that had.
      assert(expected.sent.join().includes("[elided: "));
      assert(expected.sent.length > asked.length + 8);
      assert(!expected.sent.join().includes("Cannot recall"));
      const store = memoryStore();
      const gatewayAt = () => ({ isAnew: true });
      assertSame(await played(asked, dialect, { store: () => store, gatewayAt }), expected);
    });

    Deno.test(`gateways on one store that take turns send what one sends: ${of}`, async () => {
      const expected = await whole(asked, dialect);
      const turns = fc.array(fc.record({ which: fc.nat(2), isAnew: fc.boolean() }), {
        minLength: asked.length,
        maxLength: asked.length,
      });
      await fc.assert(
        fc.asyncProperty(turns, async (turns) => {
          const store = memoryStore();
          assertSame(
            await played(asked, dialect, { store: () => store, gatewayAt: (at) => turns[at]! }),
            expected,
          );
        }),
        { numRuns: 4 },
      );
    });
  }

  Deno.test(`a gateway that is opened anew on a file for each request sends what one sends: ${dialect.name}`, async () => {
    const asked = conversation(dialect, MANNERS[0]!);
    const folder = await Deno.makeTempDir();
    let store: Store | undefined;
    try {
      const anew = async () => {
        await store?.close();
        return store = await openStore(`${folder}/tare.db`);
      };
      const gatewayAt = () => ({ isAnew: true });
      assertSame(await played(asked, dialect, { store: anew, gatewayAt }), await whole(asked, dialect));
    } finally {
      await store?.close();
      await Deno.remove(folder, { recursive: true });
    }
  });
}
