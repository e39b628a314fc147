import { assert, assertEquals } from "@std/assert";
import { contentText, estimateTokens, type Message } from "@tare/messages";
import { memoryArchive } from "@tare/prune";
import { type LedgerEntry, plannerSession, profileNamed, type PromptSessionOptions } from "@tare/planner";
import { SaidProof } from "@tare/planner/parts";

const user = (content: string): Message => ({ role: "user", content });

function step(id: string, name: string, args: object, content: string, failed = false): Message[] {
  const call = { id, type: "function", function: { name, arguments: JSON.stringify(args) } } as const;
  return [
    { role: "assistant", content: null, tool_calls: [call] },
    { role: "tool", tool_call_id: id, content, failed },
  ];
}

/** A file as a tool shows it, with a number in front of each line. */
const numbered = (name: string) =>
  Array.from({ length: 40 }, (_, at) => `${String(at + 1).padStart(6)}→const ${name}${at} = ${at} + 1;`).join(
    "\n",
  );

function make(proof: SaidProof, options: Partial<PromptSessionOptions> = {}) {
  return plannerSession({
    profile: profileNamed("anthropic-5m"),
    countTokens: estimateTokens,
    archive: memoryArchive(),
    proof,
    ...options,
  });
}

/** Plays a history call by call, and gives what came of results by each call, what was told, and the last prompt. */
async function play(
  history: readonly Message[],
  session: ReturnType<typeof make>,
  { model = "m", from = 0 }: { readonly model?: string; readonly from?: number } = {},
) {
  const told: string[] = [];
  const said: (readonly NonNullable<LedgerEntry["said"]>[number][])[] = [];
  let shown: readonly Message[] = [];
  for (let at = from; at <= history.length; at++) {
    if (at < history.length && history[at]!.role !== "assistant") continue;
    const view = await session.view({ messages: history.slice(0, at), tools: [] }, {
      nowMs: at * 1_000,
      model,
    });
    told.push(...view.warnings);
    shown = view.messages;
    said.push(session.sent(undefined, view)?.said ?? []);
  }
  return { told, said, shown };
}

/** Ids under which a read is said once, or left as it came. */
async function idsThat(isSaid: boolean, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let at = 0; ids.length < count; at++) {
    const history = [user("Go."), ...step(`r${at}`, "read", { path: "a.ts" }, numbered("a"))];
    const { shown } = await play(history, make(new SaidProof()));
    const isShorter = contentText(shown.at(-1)!.content) !== numbered("a");
    if (isShorter === isSaid) ids.push(`r${at}`);
  }
  return ids;
}

Deno.test("a session tells what came of results that were said once, and one that goes on from its state tells the rest", async () => {
  const [failing = "", again = "", good = "", open = ""] = await idsThat(true, 4);
  const history = [
    user("Go."),
    ...step(failing, "read", { path: "a.ts" }, numbered("a")),
    ...step("e1", "edit_file", { path: "a.ts", old: "x", new: "y" }, "No such text.", true),
    ...step(again, "read", { path: "b.ts" }, numbered("b")),
    ...step("s", "shell", { command: "cat src/b.ts" }, "short"),
    ...step(good, "read", { path: "c.ts" }, numbered("c")),
    ...step("e2", "edit_file", { path: "c.ts", old: "x", new: "y" }, "Done."),
    ...step(open, "read", { path: "d.ts" }, numbered("d")),
    ...step("e3", "edit_file", { path: "other.ts", old: "x", new: "y" }, "No such text.", true),
  ];
  const proof = new SaidProof();
  const outcome = (
    came: NonNullable<LedgerEntry["said"]>[number]["came"],
  ): NonNullable<LedgerEntry["said"]>[number] => ({ tool: "read", isSaid: true, came });
  const expected = [
    ...[[], [], [outcome("failed_edit")], [], [outcome("read_again")], []],
    ...[[outcome("nothing")], [], []],
  ];
  const first = make(proof);
  const { said, told } = await play(history, first);
  assertEquals([said, told], [expected, []]);
  const counts = { results: 3, failedEdits: 1, readAgain: 1 };
  const untouched = { results: 0, failedEdits: 0, readAgain: 0 };
  assertEquals(proof.records, [{ model: "m", tool: "read", said: counts, untouched }]);

  const resumed = make(proof, { state: JSON.parse(JSON.stringify(first.state)) });
  const longer = [...history, ...step("e4", "edit_file", { path: "d.ts", old: "x" }, "No such text.", true)];
  const { said: rest } = await play(longer, resumed, { from: history.length });
  assertEquals(rest, [[], [outcome("failed_edit")]]);
});

Deno.test("a read that nothing was done with is over after ten more answers; a history that went back tells nothing of it", async () => {
  const [id = ""] = await idsThat(true, 1);
  const read = [user("Go."), ...step(id, "read", { path: "a.ts" }, numbered("a"))];
  const steps = (count: number) =>
    Array.from({ length: count }, (_, at) => step(`l${at}`, "list", { at }, "nothing")).flat();
  const { said } = await play([...read, ...steps(11)], make(new SaidProof()));
  assertEquals(said.map(({ length }) => length), [...Array(12).fill(0), 1]);
  const session = make(new SaidProof());
  await play([...read, ...steps(5)], session);
  const { said: other } = await play([...read.slice(0, 1), user("Else."), ...steps(12)], session, {
    from: 2,
  });
  assertEquals(other.flat(), []);
});

Deno.test("about one in ten stays as it came until enough is known, and what is only observed always does", async () => {
  const reads = Array.from(
    { length: 200 },
    (_, at) => step(`r${at}`, "read", { path: `${at}.ts` }, numbered("a")),
  );
  const steps = Array.from({ length: 12 }, (_, at) => step(`l${at}`, "list", { at }, "nothing")).flat();
  const history = [user("Go."), ...reads.flat(), ...steps];
  const proof = new SaidProof();
  const options = { mechanisms: { references: false, prune: false, context: false } };
  const { shown } = await play(history, make(proof, options));
  const whole = shown.filter((message) => contentText(message.content) === numbered("a")).length;
  assert(whole > 8 && whole < 35, `${whole} of 200 stayed`);

  const counts = (results: number) => ({ results, failedEdits: 0, readAgain: 0 });
  const [{ said, untouched } = { said: counts(0), untouched: counts(0) }] = proof.records;
  assertEquals([said, untouched], [counts(200 - whole), counts(whole)]);
  proof.add({ model: "m", tool: "other", said: counts(3_000), untouched: counts(300) });
  const later = await play(history, make(proof, options));
  assert(later.shown.every((message) => contentText(message.content) !== numbered("a")));

  const observed = new SaidProof();
  await play(history, make(observed, { ...options, observe: true }));
  assertEquals(observed.records.map((one) => [one.said, one.untouched]), [[counts(0), counts(200)]]);
});

Deno.test("where a model's edits fail more often behind what was said once, its results come as they are, and that is told once", async () => {
  const proof = new SaidProof();
  const history: Message[] = [user("Go.")];
  const outcomes: number[] = [];
  const told: string[] = [];
  const session = make(proof, { mechanisms: { references: false, prune: false, context: false } });
  // A model that can't edit what it has seen without a number on each line.
  for (let at = 0; at < 400; at++) {
    history.push(...step(`r${at}`, "read", { path: `${at}.ts` }, numbered("a")));
    const one = await play(history, session, { from: history.length });
    told.push(...one.told);
    const isWhole = contentText(one.shown.at(-1)!.content) === numbered("a");
    const fails = !isWhole && at % 3 === 0;
    outcomes.push(isWhole ? 0 : 1);
    history.push(
      ...step(`e${at}`, "edit_file", { path: `${at}.ts` }, fails ? "No such text." : "Done.", fails),
    );
  }
  assertEquals(told.length, 1);
  assert(
    /^Results of read come as they are from now on: of \d+ that were said once \d+ /.test(told[0]!),
    told[0],
  );
  const last = outcomes.lastIndexOf(1);
  assert(last > 50 && last < 300, `said once until ${last}`);
  assert(
    proof.objection({ model: "another", tool: "read" }) !== undefined,
    "the tool is meant with any model",
  );
  assertEquals(proof.objection({ model: "another", tool: "grep" }), undefined);
});

Deno.test("chance alone hardly ever speaks against saying once, and a real difference does", () => {
  const played = ({ said, untouched }: { readonly said: number; readonly untouched: number }) => {
    // Park and Miller's generator: numbers that look random and are always the same.
    let state = 7;
    const next = () => (state = state * 48_271 % 0x7fffffff) / 0x7fffffff;
    let refuted = 0;
    for (let run = 0; run < 100; run++) {
      const proof = new SaidProof();
      for (let at = 0; at < 2_000; at++) {
        const isSaid = next() >= 0.1;
        const failedEdits = next() < (isSaid ? said : untouched) ? 1 : 0;
        const counts = { results: 1, failedEdits, readAgain: 0 };
        proof.add({ model: "m", tool: "read", ...(isSaid ? { said: counts } : { untouched: counts }) });
        if (proof.objection({ model: "m", tool: "read" }) === undefined) continue;
        refuted++;
        break;
      }
    }
    return refuted;
  };
  for (const rate of [0.01, 0.05, 0.2]) {
    const refuted = played({ said: rate, untouched: rate });
    assert(refuted <= 6, `${refuted} of 100 at ${rate}`);
  }
  assertEquals(played({ said: 0.002, untouched: 0.1 }), 0);
  assert(played({ said: 0.1, untouched: 0.01 }) >= 95);
});
