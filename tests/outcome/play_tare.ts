import type { SessionEvent } from "@tare/server";
import { seeded } from "../seeded.ts";
import { agentClient } from "../../packages/cli/agent_client.ts";
import { ownerKeyIn } from "../../packages/cli/server/find_owner_key.ts";
import { findPlaces } from "@tare/tools/internal/instructions";
import { readSettings } from "../../packages/app/settings/settings.ts";
import { type Parts, startServer } from "../../packages/app/compose.ts";
import type { Entry } from "../agents/model.ts";
import { type ProviderCall, startProvider } from "../agents/provider.ts";
import { startServerProcess } from "../crash/server_process.ts";
import { deleteBefore, faultIn, inFolder } from "./folder.ts";
import type { Made, Task } from "./task.ts";
import { type Hands, TARE, workerModel } from "./worker.ts";

export interface Arm {
  readonly flags: readonly string[];
  readonly triggers?: NonNullable<Parts["triggers"]>;
  readonly hands?: Hands;
  /** Whether calls need approval, which a user always gives. Default: false. */
  readonly asks?: boolean;
  readonly kills?: number;
  /** Changes a prompt on its way to the model. Default: nothing. */
  readonly spoils?: (entries: readonly Entry[]) => readonly Entry[];
}

export interface Outcome {
  readonly fault: string | undefined;
  readonly calls: readonly ProviderCall[];
  readonly events: readonly SessionEvent[];
  readonly killed: number;
}

/** Plays a task with a scripted worker as the model of a real server. */
export async function playWithTare(task: Task, arm: Arm, seed: number): Promise<Outcome> {
  const random = seeded(seed);
  const made = task.make(random);
  const { hands = TARE, spoils = (entries) => entries } = arm;
  const model = workerModel(
    made.question.map((question, at) => ({ question, turn: task.turns[at]! })),
    hands,
  );
  await using provider = await startProvider({
    model: (turn) => model({ ...turn, entries: spoils(turn.entries) }),
  });
  const upstream = ["--base-url", `${provider.url}/v1`, "--model", "scripted", "--profile", "openai"];
  return await inFolder(made, async ({ workspace, home }) => {
    const { answers, ...rest } = await tareAnswers(made, { workspace, data: home, upstream, random, ...arm });
    return { fault: await faultIn(workspace, { made, answers }), calls: provider.calls, ...rest };
  });
}

interface Server {
  readonly url: string;
  readonly end: () => Promise<unknown>;
}

const EVENTS = 12;

export async function tareAnswers(
  made: Made,
  { workspace, data, upstream, random, flags, triggers = {}, asks = false, kills = 0 }: Arm & {
    readonly workspace: string;
    readonly data: string;
    readonly upstream: readonly string[];
    /** Randomness of the kills. */
    readonly random: () => number;
  },
): Promise<Pick<Outcome, "events" | "killed"> & { readonly answers: readonly string[] }> {
  const args = [
    ...["--port", "0", "--workspace", workspace, "--data", data, ...upstream],
    ...(asks ? [] : ["--approvals", "allow"]),
    ...flags,
  ];
  const start = async (): Promise<Server> => {
    if (kills > 0) {
      const { url, kill } = await startServerProcess(args, {}, { triggers });
      return {
        url,
        end: async () => void complaints.push(...(await kill()).split("\n").filter(isComplaint)),
      };
    }
    const settings = readSettings(args, { PATH: Deno.env.get("PATH") });
    const { url, close } = await startServer(settings, (line) => complaints.push(line), {
      places: findPlaces(workspace),
      triggers,
    });
    return { url, end: close };
  };
  const complaints: string[] = [];
  const events: SessionEvent[] = [];
  const answers: string[] = [];
  let killed = 0;
  let untilKill = kills > 0 ? 1 + Math.floor(random() * EVENTS) : Infinity;
  let last = 0;
  let server = await start();
  try {
    const client = () => agentClient(server.url, ownerKeyIn(data));
    const id = await client().createSession();

    /** Reads events up to the end of a turn; returns `undefined` if the server is killed. */
    const endOf = async (
      stream: AsyncIterable<{ readonly number: number; readonly event: SessionEvent }>,
    ) => {
      for await (const { number, event } of stream) {
        last = number;
        events.push(event);
        if (--untilKill <= 0) {
          await server.end();
          untilKill = ++killed < kills ? 1 + Math.floor(random() * EVENTS) : Infinity;
          server = await start();
          return undefined;
        }
        if (event.type === "turn_end") return event;
      }
      return undefined;
    };

    const answerTo = async (input: string): Promise<string> => {
      let stream = await client().startTurn(id, input);
      for (;;) {
        const end = await endOf(stream);
        if (end?.reason === "completed") return end.text;
        if (end && end.reason !== "approval") throw new Error(`The turn ended as ${end.reason}.`);
        // Killed after the turn's end: no event follows.
        const state = await client().session(id);
        const before = events.at(-1);
        if (!end && state.status === "idle" && state.lastEvent === last && before?.type === "turn_end") {
          if (before.reason === "completed") return before.text;
        }
        for (const approval of state.status === "idle" ? state.approvals : []) {
          await client().answer(id, approval, { decision: "allow" });
        }
        stream = await client().follow(id, last);
      }
    };

    for (const [at, question] of made.question.entries()) {
      await deleteBefore(made, { at, workspace });
      answers.push(await answerTo(question));
    }
  } finally {
    await server.end();
  }
  if (complaints.length > 0) throw new Error(complaints.join("\n"));
  return { answers, events, killed };
}

/** Reports whether a line is more than the notice about an earlier server's processes. */
function isComplaint(line: string): boolean {
  return line !== "" &&
    !/^Ended \d+ process(es)? that commands of an earlier server left running\.$/.test(line);
}
