import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import type { SessionEvent } from "@tare/server";
import { toolCall } from "@tare/simulator";
import { seeded } from "../seeded.ts";
import { ownerOf } from "./owner.ts";
import { jsonPost } from "./json_post.ts";
import { readEvents } from "./read_events.ts";
import { recordingProvider } from "../recording_provider.ts";
import { startServerProcess } from "./server_process.ts";
import { cases, SEED } from "../cases.ts";

const ROUNDS = cases(5);

/** Longest life of a server after the first answer, in milliseconds: a few approvals. */
const LIFE_MS = 600;

const SESSIONS = 3;

interface Fate {
  isPending: boolean;
  decision?: "allow" | "deny";
  isHeard: boolean;
}

interface Open {
  readonly id: string;
  readonly arguments: string;
}

/** User of a session who approves and denies at random. */
class Person {
  readonly #session: string;
  readonly #random: () => number;
  readonly #data: string;
  readonly #fates: Map<string, Fate>;
  #last = 0;

  constructor(session: string, { random, fates, data }: {
    readonly random: () => number;
    readonly fates: Map<string, Fate>;
    readonly data: string;
  }) {
    this.#session = session;
    this.#random = random;
    this.#data = data;
    this.#fates = fates;
  }

  /** Works until the connection breaks; `begun` is called when a turn has ended. */
  async work(url: string, begun: () => void): Promise<void> {
    const at = `${url}/tare/v1/sessions/${this.#session}`;
    for (;;) {
      const open = await this.#open(at);
      if (open.length > 0 && this.#random() < 0.9) await this.#answer(at, open);
      else await this.#read(await fetch(`${at}/turns`, jsonPost({ input: `round ${this.#fates.size}` })));
      begun();
    }
  }

  async check(url: string): Promise<void> {
    const at = `${url}/tare/v1/sessions/${this.#session}`;
    const lastEvent = await this.#settled(at);
    const open = (await this.#open(at)).map(tokenOf);
    const events: SessionEvent[] = [];
    if (lastEvent > 0) {
      for await (const { number, data } of readEvents(await fetch(`${at}/events`))) {
        events.push(JSON.parse(data));
        if (number >= lastEvent) break;
      }
    }
    const tokens = events.filter((event) => event.type === "approval_requested").map(tokenOf);
    assertEquals(tokens.length, new Set(tokens).size, "an approval was requested twice");
    const answered = events.filter((event) => event.type === "approval_answered").length;
    assertEquals(tokens.length - answered, open.length);
    for (const token of tokens) {
      const fate = this.#fates.get(token);
      if (fate?.isHeard) assert(!open.includes(token), `${token} is pending though it was answered`);
    }
    this.#last = lastEvent;
  }

  /** Waits until the interrupted turn has resumed and ended. Returns the number of the last event. */
  async #settled(at: string): Promise<number> {
    for (;;) {
      const { status, lastEvent } = await (await fetch(at)).json();
      if (status === "idle") return lastEvent;
      await this.#read(await fetch(`${at}/events?after=${this.#last}`));
    }
  }

  async #open(at: string): Promise<readonly Open[]> {
    const { approvals } = await (await fetch(`${at}/approvals`)).json();
    for (const approval of approvals) this.#fate(approval).isPending = true;
    return approvals;
  }

  #fate(call: { readonly arguments: string }): Fate {
    const token = tokenOf(call);
    const fate = this.#fates.get(token) ?? { isPending: false, isHeard: false };
    this.#fates.set(token, fate);
    return fate;
  }

  async #answer(at: string, open: readonly Open[]): Promise<void> {
    for (const approval of open) {
      const fate = this.#fate(approval);
      const decision = this.#random() < 0.7 ? "allow" : "deny";
      // An approval that was sent may arrive.
      if (fate.decision !== "allow") fate.decision = decision;
      const body = { decision, reason: "so" };
      const response = await fetch(`${at}/approvals/${approval.id}`, jsonPost(body, ownerOf(this.#data)));
      assertEquals(response.status, 200, await response.text());
      fate.isHeard = true;
    }
    await this.#read(await fetch(`${at}/events?after=${this.#last}`));
  }

  async #read(response: Response): Promise<void> {
    assertEquals(response.status, 200);
    for await (const { number, data } of readEvents(response)) {
      if (number <= this.#last) continue;
      this.#last = number;
      const event: SessionEvent = JSON.parse(data);
      if (event.type === "approval_requested") this.#fate(event).isPending = true;
      if (event.type === "turn_end") return;
    }
  }
}

function tokenOf(call: { readonly arguments: string }): string {
  return /token-\d+/.exec(call.arguments)![0];
}

Deno.test(`crash: a server killed at ${ROUNDS} random moments runs nothing without approval, and requests none twice`, async () => {
  const random = seeded(SEED);
  const folder = await Deno.makeTempDir();
  const workspace = join(folder, "workspace");
  await Deno.mkdir(workspace);
  const log = join(workspace, "log.txt");
  await Deno.writeTextFile(log, "");
  let tokens = 0;
  const append = () => toolCall("shell", { command: `echo token-${tokens++} >> log.txt` });
  const provider = recordingProvider(
    ({ messages }) =>
      messages.at(-1)?.role === "tool" ? { content: "Done." } : { tool_calls: [append(), append()] },
    () => 0,
  );
  const args = [
    ...["--port", "0", "--workspace", workspace, "--data", join(folder, "data")],
    ...["--base-url", provider.url, "--model", "simulated", "--profile", "openai"],
  ];
  const fates = new Map<string, Fate>();
  const people: Person[] = [];
  const check = async (url: string) => {
    await Promise.all(people.map((person) => person.check(url)));
    const ran = (await Deno.readTextFile(log)).split("\n").slice(0, -1);
    assertEquals(ran.length, new Set(ran).size, "a call ran twice");
    for (const token of ran) assertEquals(fates.get(token)?.decision, "allow", `${token} ran without a yes`);
    return ran.length;
  };
  let ran = 0;
  const isOver = () => ran > 0 && ran < fates.size;
  try {
    for (let round = 0;; round++) {
      const server = await startServerProcess(args);
      let isKilled = false;
      try {
        if (round === 0) {
          for (let made = 0; made < SESSIONS; made++) {
            const { id } = await (await fetch(`${server.url}/tare/v1/sessions`, jsonPost({}))).json();
            people.push(new Person(id, { random, fates, data: join(folder, "data") }));
          }
        }
        ran = await check(server.url);
        // On a busy machine a server's life may be too short for much.
        if (round >= 5 * ROUNDS || round >= ROUNDS && isOver()) break;
        const begun = Promise.withResolvers<void>();
        // The first turn of a server takes longer than all others: some are killed in it.
        if (random() < 0.2) begun.resolve();
        const working = Promise.all(
          people.map((person) =>
            person.work(server.url, begun.resolve).catch((error) => {
              if (!isKilled || !(error instanceof TypeError)) throw error;
            })
          ),
        );
        await Promise.race([working, begun.promise]);
        const moment = Promise.withResolvers<void>();
        const timer = setTimeout(moment.resolve, random() * LIFE_MS);
        await Promise.race([working, moment.promise]).finally(() => clearTimeout(timer));
        isKilled = true;
        await server.kill();
        await working;
      } finally {
        await server.kill();
      }
    }
    assert(isOver(), "nothing ran, or nothing was left open");
  } catch (cause) {
    throw new Error(`Failed with TARE_TEST_SEED=${SEED}`, { cause });
  } finally {
    await provider.close();
    await Deno.remove(folder, { recursive: true });
  }
});
