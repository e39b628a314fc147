import { assert, assertEquals, assertLess } from "@std/assert";
import { formatPlaceholder, parsePlaceholder } from "@tare/prune/internal";
import { seeded } from "../seeded.ts";
import type { Entry } from "../agents/model.ts";
import { CASE_FACTOR, SEED } from "../cases.ts";
import { CROWDED, FORGETFUL, PLANNED, PROGRAMMED, UNPRUNED } from "./arms.ts";
import { deleteBefore, faultIn, inFolder, layFiles } from "./folder.ts";
import { type Arm, type Outcome, playWithTare } from "./play_tare.ts";
import type { Task } from "./task.ts";
import { TASKS } from "./tasks.ts";

async function playAll(
  armOf: (task: Task, at: number) => Arm,
  tasks: readonly Task[] = TASKS,
): Promise<ReadonlyMap<string, Outcome>> {
  const outcomes: (readonly [string, Outcome])[] = [];
  const waiting = tasks.entries();
  const play = async () => {
    for (const [at, task] of waiting) {
      try {
        outcomes[at] = [task.name, await playWithTare(task, armOf(task, at), SEED)];
      } catch (cause) {
        throw new Error(`Cannot play "${task.name}" with TARE_TEST_SEED=${SEED}`, { cause });
      }
    }
  };
  await Promise.all([play(), play()]);
  return new Map(outcomes);
}

function faults(outcomes: ReadonlyMap<string, Outcome>): readonly string[] {
  return [...outcomes].flatMap(([name, { fault }]) =>
    fault === undefined ? [] : [`${name}: ${fault} (TARE_TEST_SEED=${SEED})`]
  );
}

function recalling(outcomes: ReadonlyMap<string, Outcome>): readonly string[] {
  const recalls = ({ calls }: Outcome) =>
    calls.some(({ reply }) => reply?.calls.some(({ name }) => name === "recall"));
  return [...outcomes].flatMap(([name, outcome]) => recalls(outcome) ? [name] : []);
}

async function judged(
  task: Task,
  { files = {}, answer = "Done." }: Partial<ReturnType<Task["make"]>["wrong"]>,
): Promise<string | undefined> {
  const made = task.make(seeded(SEED));
  return await inFolder(made, async ({ workspace }) => {
    for (const at of made.question.keys()) await deleteBefore(made, { at, workspace });
    await layFiles(workspace, files);
    return await faultIn(workspace, { made, answers: made.question.map(() => answer) });
  });
}

Deno.test("outcome: there are twenty tasks, and none is solved by doing nothing or by its wrong solution", async () => {
  assertEquals(new Set(TASKS.map(({ name }) => name)).size, 20);
  for (const task of TASKS) {
    const { wrong, question } = task.make(seeded(SEED));
    assertEquals(task.turns.length, question.length, task.name);
    assert(await judged(task, {}) !== undefined, `${task.name}: nothing was done (seed ${SEED})`);
    assert(await judged(task, wrong) !== undefined, `${task.name}: what is wrong passes (seed ${SEED})`);
  }
});

Deno.test("outcome: every task passes with the planner in a small window, some with recall", async () => {
  const outcomes = await playAll(() => CROWDED);
  assertEquals(faults(outcomes), []);
  assert(recalling(outcomes).length >= 3, `only ${recalling(outcomes)} needed what had left`);
});

Deno.test("outcome: every task passes without pruning, and nothing is recalled", async () => {
  const outcomes = await playAll(() => UNPRUNED);
  assertEquals(faults(outcomes), []);
  assertEquals(recalling(outcomes), []);
});

Deno.test("outcome: every task passes in code mode, and results that only programs use never enter a prompt", async () => {
  const outcomes = await playAll(() => PROGRAMMED);
  assertEquals(faults(outcomes), []);
  const prompts = (outcomes: ReadonlyMap<string, Outcome>, name: string) =>
    Math.max(...outcomes.get(name)!.calls.map(({ usage }) => usage.prompt));
  const name = "sum up forty files";
  const task = TASKS.find((task) => task.name === name)!;
  const called = new Map([[name, await playWithTare(task, UNPRUNED, SEED)]]);
  assertLess(prompts(outcomes, name), prompts(called, name) / 2);
});

Deno.test("outcome: every task passes under aggressive pruning with recall; recall-dependent tasks fail without it", async () => {
  const outcomes = await playAll(() => FORGETFUL);
  assertEquals(faults(outcomes), []);
  const needy = recalling(outcomes);
  assert(needy.length >= 4, `only ${needy} needed what had left`);
  for (const spoils of [withWrongReferences, withoutPlaceholders]) {
    const spoilt = await playAll(() => ({ ...FORGETFUL, spoils }));
    const failed = [...spoilt].flatMap(([name, { fault }]) => fault === undefined ? [] : [name]);
    assertEquals(failed, needy, spoils.name);
  }
});

/** Replaces references as if the archive had lost its texts. */
function withWrongReferences(entries: readonly Entry[]): readonly Entry[] {
  return withLines(entries, (line) => {
    const placeholder = parsePlaceholder(line);
    return placeholder ? formatPlaceholder({ ...placeholder, ref: "0".repeat(16) }, { recall: true }) : line;
  });
}

/** Removes placeholders, as if content were evicted without a trace. */
function withoutPlaceholders(entries: readonly Entry[]): readonly Entry[] {
  return withLines(entries, (line) => parsePlaceholder(line) ? "" : line);
}

function withLines(entries: readonly Entry[], change: (line: string) => string): readonly Entry[] {
  return entries.map((item) =>
    item.type === "call" ? item : { ...item, text: item.text.split("\n").map(change).join("\n") }
  );
}

Deno.test("outcome: every task passes if a user approves every call that doesn't only read", async () => {
  const outcomes = await playAll(() => ({ ...PLANNED, asks: true }));
  assertEquals(faults(outcomes), []);
  const silent = [...outcomes].filter(([, { events }]) =>
    !events.some(({ type }) => type === "approval_requested")
  );
  // A task that only searches and answers has only reading calls.
  assertEquals(silent.map(([name]) => name), ["find the right one of sixty files"]);
});

/** Tasks whose server is killed, by default one per combination of arms, kills and approvals. */
const KILLED = CASE_FACTOR > 1 ? TASKS : TASKS.filter((_, at) => at % 5 === 0);

Deno.test("outcome: tasks pass on servers that are killed while they work, some with pending approvals, some in programs", async () => {
  const outcomes = await playAll((_, at) => ({
    ...(at % 4 < 2 ? PLANNED : PROGRAMMED),
    kills: at % 4 === 3 ? 2 : 1,
    asks: at % 2 === 1,
  }), KILLED);
  assertEquals(outcomes.size, KILLED.length);
  assertEquals(faults(outcomes), []);
  const spared = [...outcomes].filter(([, { killed }]) => killed === 0);
  assertEquals(spared.map(([name]) => name), []);
});
