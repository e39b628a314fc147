import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "@std/path";
import { seeded } from "../seeded.ts";
import { Bystander } from "./bystander.ts";
import { recordingProvider } from "../recording_provider.ts";
import { startServerProcess } from "./server_process.ts";
import { isRewrite, type Testimony, Witness, type WitnessOptions } from "./witness.ts";
import { LOG, NOTES, OUT, type WorkingModel, workingModel } from "./working_model.ts";
import { cases, SEED } from "../cases.ts";

const ROUNDS = cases(5);

/** Longest life of a server after the first event, in milliseconds: a few turns. */
const LIFE_MS = 400;

const SESSIONS = 2;

/** Rounds before new sessions take over, so that each stays short enough to be checked as a whole. */
const ROUNDS_OF_SESSION = 10;

/** Settings and triggers that give each policy something to do. */
const POLICIES = {
  planner: { flags: ["--window", "64000"], triggers: {} },
  classic: {
    flags: ["--window", "8000", "--truncate-at", "1000"],
    triggers: { historyBudgetTokens: 500, protectTokens: 500, pruneAt: 0.4, summarizeAt: 0.5 },
  },
} as const;

for (const policy of ["planner", "classic"] as const) {
  Deno.test(`crash: a server killed at ${ROUNDS} random moments retains everything acknowledged: ${policy}`, () =>
    killAndCheck(policy));
}

async function killAndCheck(policy: keyof typeof POLICIES): Promise<void> {
  const random = seeded(SEED);
  const folder = await Deno.makeTempDir();
  const workspace = join(folder, "workspace");
  await Deno.mkdir(workspace);
  await Deno.writeTextFile(join(workspace, NOTES), "a line of notes\n".repeat(300));
  await Deno.writeTextFile(join(workspace, LOG), "");
  const work = workingModel(seeded(SEED + 1));
  const provider = recordingProvider(work.model, seeded(SEED + 2));
  const args = [
    ...["--port", "0", "--workspace", workspace, "--data", join(folder, "data"), "--approvals", "allow"],
    ...["--base-url", provider.url, "--model", "simulated", "--profile", "openai"],
    ...["--policy", policy, ...POLICIES[policy].flags],
  ];
  const turnsRestart = policy === "classic";
  const all: Witness[] = [];
  const bystander = new Bystander(provider, join(folder, "data"));
  let resumed = 0;
  // A few turns trigger the classic policy, but on a busy machine a server's life is too short for them.
  let reached = policy === "planner";
  try {
    for (let round = 0; round < ROUNDS || !reached && round < 5 * ROUNDS; round++) {
      await withServer({ args, policy }, async ({ url, kill }) => {
        if (round % ROUNDS_OF_SESSION === 0) {
          // The turns that the last kill interrupted resume here, and still write their files.
          await checkAll(all.slice(-SESSIONS), { url, workspace, work });
          all.push(...await newWitnesses(url, { provider, random, turnsRestart, name: `round ${round}` }));
        }
        const witnesses = all.slice(-SESSIONS);
        await bystander.check(url);
        const found = await checkAll(witnesses, { url, workspace, work });
        reached ||= found.some(({ events }) => events.some(isRewrite));
        await Deno.remove(join(workspace, OUT), { recursive: true }).catch(() => {});
        const known = new Set(work.written);
        const [inTurn, afterMs] = [random() < 0.8, random() * LIFE_MS];
        await workUntilKilled(witnesses, { bystander, url, kill, inTurn, afterMs });
        await assertNotWritten(join(workspace, OUT), known);
      });
    }
    await withServer({ args, policy }, async ({ url }) => {
      const found = await checkAll(all, { url, workspace, work });
      reached ||= found.some(({ events }) => events.some(isRewrite));
      resumed = found.reduce((sum, one) => sum + one.resumed, 0);
      assert(reached, "nothing was rewritten");
    });
    for (const [what, times] of Object.entries(bystander.acknowledged)) {
      // How many depends on the machine's load; few rounds may be too short for any.
      assert(times > 0 || ROUNDS < 100, `no ${what}`);
    }
    assert(turnsRestart || ROUNDS < 100 || all.some(({ pins }) => pins > 0), "no pins");
    assert(resumed >= ROUNDS / 2, `only ${resumed} turns were cut off`);
  } catch (cause) {
    throw new Error(`Failed with TARE_TEST_SEED=${SEED}`, { cause });
  } finally {
    await provider.close();
    await Deno.remove(folder, { recursive: true });
  }
}

/** Starts a server, and kills it if it still runs after `use`. It may have logged nothing. */
async function withServer(
  { args, policy }: { readonly args: readonly string[]; readonly policy: keyof typeof POLICIES },
  use: (server: { readonly url: string; readonly kill: () => Promise<void> }) => Promise<void>,
): Promise<void> {
  const { triggers } = POLICIES[policy];
  const server = await startServerProcess(args, {}, { triggers });
  let output = "";
  const kill = async () => void (output = await server.kill());
  try {
    await use({ url: server.url, kill });
  } finally {
    await kill();
  }
  // A command may outlive its server for a moment.
  assertMatch(output, /^(Ended \d+ process(es)? that commands of an earlier server left running\.\n)?$/);
}

function newWitnesses(
  url: string,
  { name, ...options }: Omit<WitnessOptions, "instructions"> & { readonly name: string },
): Promise<Witness[]> {
  const names = Array.from({ length: SESSIONS }, (_, index) => `Session ${index} of ${name}.`);
  return Promise.all(names.map((instructions) => Witness.create(url, { instructions, ...options })));
}

/** Checks that each session is complete, and that every tool effect of its events happened once. */
async function checkAll(
  witnesses: readonly Witness[],
  { url, workspace, work }: {
    readonly url: string;
    readonly workspace: string;
    readonly work: WorkingModel;
  },
): Promise<Testimony[]> {
  const found = await Promise.all(witnesses.map((witness) => witness.check(url)));
  const lines = (await Deno.readTextFile(join(workspace, LOG))).split("\n").slice(0, -1);
  const logged = new Set(lines);
  assertEquals(lines.length, logged.size, "a line was appended twice");
  for (const line of lines) assert(work.appended.has(line), line);
  for (const event of found.flatMap(({ events }) => events)) {
    if (event.type !== "tool_result" || event.name !== "shell" || event.error) continue;
    const [token = ""] = /token-\d+/.exec(event.content) ?? [];
    assert(logged.has(token), `${token} was not appended`);
  }
  return found;
}

/** Runs the witnesses and the bystander, kills the server meanwhile, and waits until all have noticed. */
async function workUntilKilled(
  witnesses: readonly Witness[],
  { bystander, url, kill, inTurn, afterMs }: {
    readonly bystander: Bystander;
    readonly url: string;
    readonly kill: () => Promise<void>;
    /** Whether the time starts at a turn's first event, however long that takes. */
    readonly inTurn: boolean;
    readonly afterMs: number;
  },
): Promise<void> {
  let killed = false;
  const untilKilled = async (work: Promise<void>) => {
    try {
      await work;
    } catch (error) {
      if (!killed || !(error instanceof TypeError)) throw error;
    }
  };
  const begun = inTurn ? Promise.race(witnesses.map((witness) => witness.heard())) : Promise.resolve();
  const working = Promise.all([
    untilKilled(bystander.work(url)),
    ...witnesses.map((witness) => untilKilled(witness.work(url))),
  ]);
  try {
    await Promise.race([working, begun.then(() => new Promise((resolve) => setTimeout(resolve, afterMs)))]);
  } finally {
    killed = true;
    await kill();
  }
  await working;
}

async function assertNotWritten(folder: string, names: ReadonlySet<string>): Promise<void> {
  const files = await Array.fromAsync(Deno.readDir(folder)).catch(() => []);
  assertEquals(files.filter(({ name }) => names.has(name)), []);
}
