import { assert, assertEquals, assertMatch } from "@std/assert";
import { jsonPost } from "./json_post.ts";
import { readEvents, type ReceivedEvent } from "./read_events.ts";
import { recordingProvider } from "../recording_provider.ts";

export type Send = (path: string, init?: RequestInit) => Promise<Response>;

/** Client of one session on a full disk, with the received events by number. */
export class Client {
  readonly #acknowledged = new Map<number, string>();
  readonly #path: string;
  readonly send: Send;

  constructor(id: string, send: Send) {
    this.#path = `/tare/v1/sessions/${id}`;
    this.send = send;
  }

  static async create(send: Send): Promise<Client> {
    return new Client((await (await send("/tare/v1/sessions", { method: "POST" })).json()).id, send);
  }

  async turn(): Promise<{ readonly end?: string; readonly status?: number; readonly message?: string }> {
    for (;;) {
      const response = await this.send(`${this.#path}/turns`, jsonPost({ input: "Go on." }));
      if (response.ok) return await this.#read(response);
      const { error } = await response.json();
      if (error.code !== "turn_running") return error;
      // A turn whose end found no room resumes on another server.
      await this.#read(await this.send(`${this.#path}/events`));
    }
  }

  /** Reads events to the end of their stream. Returns the last turn's outcome, or the reported error. */
  async #read(
    response: Response,
    seen: (event: ReceivedEvent) => void = ({ number, data }) => this.#acknowledged.set(number, data),
  ): ReturnType<Client["turn"]> {
    let end = {};
    try {
      for await (const event of readEvents(response)) {
        seen(event);
        const { type, reason, message } = JSON.parse(event.data);
        if (type === "turn_end") end = { end: reason, message };
      }
    } catch (error) {
      // Reading needs no room.
      if (!response.ok) throw error;
      return JSON.parse((error as Error).message).error;
    }
    return end;
  }

  /** Plays turns until three in a row fail. Returns how many completed. */
  async fill(): Promise<number> {
    let completed = 0;
    for (let full = 0; full < 3;) {
      const turn = await this.turn();
      if (turn.end === "completed") {
        completed++;
        full = 0;
      } else {
        assertFull(turn);
        full++;
      }
    }
    return completed;
  }

  /**
   * Checks that everything received can be read.
   *
   * @param options.mayWait Whether a turn may wait for room. Default: false.
   */
  async assertNothingLost({ mayWait = false }: { readonly mayWait?: boolean } = {}): Promise<void> {
    // A resumed turn may fail again meanwhile.
    await this.#read(await this.send(`${this.#path}/events`));
    const events: ReceivedEvent[] = [];
    const event = await this.#read(
      await this.send(`${this.#path}/events`),
      (event) => void events.push(event),
    );
    if (event.status !== undefined) {
      assert(mayWait, event.message);
      assertFull(event);
    }
    assertEquals(events.map(({ number }) => number), events.map((_, index) => index + 1));
    for (const [number, data] of this.#acknowledged) assertEquals(events[number - 1]?.data, data);
  }
}

function assertFull({ end, status, message = "" }: Awaited<ReturnType<Client["turn"]>>): void {
  assertEquals(end ?? status, end === undefined ? 507 : "internal_error");
  assertMatch(
    message,
    /(disk is full|No space left on device)\. Nothing was written\. Free some space\./,
  );
}

/** Checks that the server reports the full disk each time, and continues once there is room. */
export async function throughFullDisk(
  client: Client,
  { whileFull = () => Promise.resolve(), makeRoom }: {
    readonly whileFull?: () => Promise<void>;
    readonly makeRoom: () => Promise<void>;
  },
): Promise<void> {
  const completed = await client.fill();
  assert(completed > 2, `Only ${completed} turns fit.`);
  assertEquals((await (await client.send("/health")).json()).status, "ok");
  await whileFull();
  await makeRoom();
  assertEquals((await client.turn()).end, "completed");
  await client.assertNothingLost();
}

export async function makeOthers(send: Send, counts: readonly number[]): Promise<string[]> {
  const ids: string[] = [];
  for (const turns of counts) {
    const { id } = await (await send("/tare/v1/sessions", { method: "POST" })).json();
    const other = new Client(id, send);
    for (let played = 0; played < turns; played++) assertEquals((await other.turn()).end, "completed");
    ids.push(id);
  }
  return ids;
}

export function talkativeProvider() {
  return recordingProvider(() => ({ content: "more words ".repeat(9_000) }), () => 0);
}

/** Runs a test on a disk with a size for `mount`. Needs {@linkcode SMALL_DISK}. */
export async function onSmallDisk(size: string, test: (disk: string) => Promise<void>): Promise<void> {
  const disk = await Deno.makeTempDir();
  await run("mount", "-t", "tmpfs", "-o", `size=${size}`, "tmpfs", disk);
  try {
    await test(disk);
  } finally {
    await run("umount", disk);
    await Deno.remove(disk);
  }
}

async function run(command: string, ...args: string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(command, { args }).output();
  if (!success) throw new Error(`Cannot run ${command}: ${new TextDecoder().decode(stderr)}`);
}
