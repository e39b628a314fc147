import { assert, assertEquals, assertLess } from "@std/assert";
import { formatPlaceholder, parsePlaceholder } from "@tare/prune/internal";
import { seeded } from "../seeded.ts";
import type { Said } from "../agents/model.ts";
import { CASE_FACTOR, SEED } from "../cases.ts";
import { CROWDED, FORGETFUL, PLANNED, PROGRAMMED, UNPRUNED } from "./arms.ts";
import { deleteBefore, faultIn, inFolder, layFiles } from "./folder.ts";
import { type Arm, type Outcome, playWithTare } from "./play_tare.ts";
import type { Task } from "./task.ts";
import { TASKS } from "./tasks.ts";

/** The outcomes of tasks, by their names. Two tasks are played at a time, as much of it is waiting. */
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

/** The tasks that aren't done, and why. */
function faults(outcomes: ReadonlyMap<string, Outcome>): readonly string[] {
  return [...outcomes].flatMap(([name, { fault }]) =>
    fault === undefined ? [] : [`${name}: ${fault} (TARE_TEST_SEED=${SEED})`]
  );
}

/** The tasks that needed what had left their prompts. */
function recalling(outcomes: ReadonlyMap<string, Outcome>): readonly string[] {
  const recalls = ({ calls }: Outcome) =>
    calls.some(({ reply }) => reply?.calls.some(({ name }) => name === "recall"));
  return [...outcomes].flatMap(([name, outcome]) => recalls(outcome) ? [name] : []);
}

/** Why a task isn't done where somebody has left files and answers so. */
async function judged(
  task: Task,
  { files = {}, answer = "Done." }: Partial<ReturnType<Task["make"]>["wrong"]>,
): Promise<string | undefined> {
  const made = task.make(seeded(SEED));
  return await inFolder(made, async ({ workspace }) => {
    for (const at of made.asked.keys()) await deleteBefore(made, { at, workspace });
    await layFiles(workspace, files);
    return await faultIn(workspace, { made, answers: made.asked.map(() => answer) });
  });
}

Deno.test("there are twenty tasks, and none is done where nothing was, or what looks right at first", async () => {
  assertEquals(new Set(TASKS.map(({ name }) => name)).size, 20);
  for (const task of TASKS) {
    const { wrong, asked } = task.make(seeded(SEED));
    assertEquals(task.turns.length, asked.length, task.name);
    assert(await judged(task, {}) !== undefined, `${task.name}: nothing was done (seed ${SEED})`);
    assert(await judged(task, wrong) !== undefined, `${task.name}: what is wrong passes (seed ${SEED})`);
  }
});

Deno.test("all tasks are done as the planner shows them in a small window, and some by what was recalled", async () => {
  const outcomes = await playAll(() => CROWDED);
  assertEquals(faults(outcomes), []);
  assert(recalling(outcomes).length >= 3, `only ${recalling(outcomes)} needed what had left`);
});

Deno.test("all tasks are done with nothing pruned, and nothing is recalled", async () => {
  const outcomes = await playAll(() => UNPRUNED);
  assertEquals(faults(outcomes), []);
  assertEquals(recalling(outcomes), []);
});

Deno.test("all tasks are done by programs that call the tools, and where that leaves most out it never enters a prompt", async () => {
  const outcomes = await playAll(() => PROGRAMMED);
  assertEquals(faults(outcomes), []);
  const prompts = (outcomes: ReadonlyMap<string, Outcome>, name: string) =>
    Math.max(...outcomes.get(name)!.calls.map(({ usage }) => usage.prompt));
  const name = "sum up forty files";
  const task = TASKS.find((task) => task.name === name)!;
  const called = new Map([[name, await playWithTare(task, UNPRUNED, SEED)]]);
  assertLess(prompts(outcomes, name), prompts(called, name) / 2);
});

Deno.test("all tasks are done where nearly all leaves at once, and none that needs it where nothing brings it back", async () => {
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

/** As from an archive that has lost what it was given. */
function withWrongReferences(said: readonly Said[]): readonly Said[] {
  return withLines(said, (line) => {
    const placeholder = parsePlaceholder(line);
    return placeholder ? formatPlaceholder({ ...placeholder, ref: "0".repeat(16) }, { recall: true }) : line;
  });
}

/** As if what leaves left without a trace. */
function withoutPlaceholders(said: readonly Said[]): readonly Said[] {
  return withLines(said, (line) => parsePlaceholder(line) ? "" : line);
}

function withLines(said: readonly Said[], change: (line: string) => string): readonly Said[] {
  return said.map((item) =>
    item.type === "call" ? item : { ...item, text: item.text.split("\n").map(change).join("\n") }
  );
}

Deno.test("all tasks are done where a person is asked before whatever does more than read", async () => {
  const outcomes = await playAll(() => ({ ...PLANNED, asks: true }));
  assertEquals(faults(outcomes), []);
  const silent = [...outcomes].filter(([, { events }]) =>
    !events.some(({ type }) => type === "approval_asked")
  );
  // What only has to be found and told is no more than read.
  assertEquals(silent.map(([name]) => name), ["find which of sixty files says it"]);
});

/** Tasks whose server is killed: by default as many as there are combinations of arms, kills and approvals. */
const KILLED = CASE_FACTOR > 1 ? TASKS : TASKS.filter((_, at) => at % 5 === 0);

Deno.test("tasks are done by servers that are killed while they work, some with questions open, some in programs", async () => {
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
