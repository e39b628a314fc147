import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import type { SessionEvent } from "@tare/server";
import { toolCall } from "@tare/simulator";
import { seeded } from "../seeded.ts";
import { jsonPost } from "./json_post.ts";
import { ownerOf } from "./owner.ts";
import { readEvents } from "./read_events.ts";
import { recordingProvider } from "../recording_provider.ts";
import { startServerProcess } from "./server_process.ts";
import { cases, SEED } from "../cases.ts";

const ROUNDS = cases(5);

/**
 * Longest life of a server after its programs' first progress, in milliseconds: a few calls and approvals.
 */
const LIFE_MS = 500;

const SESSIONS = 2;

const DENIED_EVERY = 3;

/** Rules that require approval only for written files. */
const RULES = [{ tool: "write_file", decision: "ask" }, { tool: "*", decision: "allow" }];

/**
 * Returns a program that appends lines and writes files, each once, looking up calls with an unknown
 * outcome.
 */
function program(name: string): string {
  return `
    const name = ${JSON.stringify(name)};
    const log = name + ".log";
    const read = (path) => tools.read_file({ path }).catch(() => "");
    const isKnown = (error) => error.message.includes("the user denied it");
    const once = async (isDone, make) => {
      for (let tries = 0; tries < 12; tries++) {
        try {
          await make();
          return;
        } catch (error) {
          if (isKnown(error)) throw error;
          if (await isDone()) return;
        }
      }
      throw new Error("It never ends.");
    };
    const append = async (word) => {
      await once(
        async () => (await read(log)).includes(word + ";"),
        () => tools.shell({ command: "echo '" + word + ";' >> " + log }),
      );
      return word;
    };
    const write = async (path, content) => {
      try {
        await once(async () => (await read(path)).includes(content), () => tools.write_file({ path, content }));
        return path;
      } catch {
        return "no " + path;
      }
    };
    print(await append("first"));
    print(await Promise.all([append("left"), write(name + "-1.txt", "one"), append("right")]));
    for (let n = 0; n < 3; n++) await append("word " + n);
    print(await write(name + "-2.txt", "two"), await append("last"));
    return (await read(log)).split(";").length - 1;
  `;
}

const numberIn = (name: string) => Number(/program-(\d+)/.exec(name)![1]);

const isDenied = (path: string) => path.endsWith("-2.txt") && numberIn(path) % DENIED_EVERY === 0;

function eventName(name: string): string {
  const second = `${name}-2.txt`;
  return [
    "first",
    JSON.stringify(["left", `${name}-1.txt`, "right"]),
    `${isDenied(second) ? "no " : ""}${second} last`,
    "7",
  ].join("\n");
}

/** User of a session who runs programs and approves their files. */
class Person {
  readonly #session: string;
  readonly #data: string;
  #last = 0;

  constructor(session: string, data: string) {
    this.#session = session;
    this.#data = data;
  }

  /** Works until the connection breaks; `begun` is called at a program's first progress. */
  async work(url: string, begun: () => void): Promise<void> {
    const at = `${url}/tare/v1/sessions/${this.#session}`;
    // Earlier events don't show that this server has made progress.
    this.#last = (await (await fetch(at)).json()).lastEvent;
    for (;;) {
      const { status, approvals } = await (await fetch(at)).json();
      if (status !== "idle") await this.#read(await fetch(`${at}/events?after=${this.#last}`), begun);
      else if (approvals.length > 0) await this.#answer(at, approvals, begun);
      else await this.#read(await fetch(`${at}/turns`, jsonPost({ input: "Go on." })), begun);
    }
  }

  async #answer(
    at: string,
    approvals: readonly { readonly id: string; readonly arguments: string }[],
    begun: () => void,
  ): Promise<void> {
    for (const { id, arguments: text } of approvals) {
      const body = { decision: isDenied(JSON.parse(text).path) ? "deny" : "allow" };
      const response = await fetch(`${at}/approvals/${id}`, jsonPost(body, ownerOf(this.#data)));
      assertEquals(response.status, 200, await response.text());
    }
    await this.#read(await fetch(`${at}/events?after=${this.#last}`), begun);
  }

  async #read(response: Response, begun: () => void): Promise<void> {
    for await (const { number, data } of readEvents(response)) {
      if (number <= this.#last) continue;
      this.#last = number;
      const event: SessionEvent = JSON.parse(data);
      if (event.type === "tool_result" && event.parent !== undefined) begun();
      if (event.type === "turn_end") return;
    }
  }

  async events(url: string): Promise<readonly SessionEvent[]> {
    const at = `${url}/tare/v1/sessions/${this.#session}`;
    const { lastEvent } = await (await fetch(at)).json();
    const events: SessionEvent[] = [];
    if (lastEvent === 0) return events;
    for await (const { number, data } of readEvents(await fetch(`${at}/events`))) {
      events.push(JSON.parse(data));
      if (number >= lastEvent) break;
    }
    return events;
  }
}

async function check(people: readonly Person[], { url, workspace }: { url: string; workspace: string }) {
  const events = (await Promise.all(people.map((person) => person.events(url)))).flat();
  const programs = events.filter((event) => event.type === "tool_result" && event.name === "run_program");
  for (const event of programs) {
    assert(event.type === "tool_result");
    assertEquals(event.error, false, event.content);
    const [name = ""] = /program-\d+/.exec(event.content) ?? [];
    assertEquals(event.content.replace(/\n\n\[Written: .*\]$/, ""), eventName(name));
    const log = await Deno.readTextFile(join(workspace, `${name}.log`));
    const words = log.split(";\n").slice(0, -1).toSorted();
    assertEquals(
      words,
      ["first", "last", "left", "right", "word 0", "word 1", "word 2"],
      `${name} wrote otherwise`,
    );
  }
  for await (const { name } of Deno.readDir(workspace)) {
    assert(!isDenied(name), `${name} was written without a yes`);
    if (!name.endsWith(".log")) continue;
    const words = (await Deno.readTextFile(join(workspace, name))).split(";\n").slice(0, -1);
    assertEquals(words.length, new Set(words).size, `a call of ${name} ran twice`);
  }
  const count = (type: SessionEvent["type"]) => events.filter((event) => event.type === type).length;
  return {
    ended: programs.length,
    resumed: count("turn_resumed"),
    requests: count("approval_requested"),
    unknown:
      events.filter((event) => event.type === "tool_result" && /outcome unknown/.test(event.content)).length,
  };
}

Deno.test(`code mode: programs of a server killed at ${ROUNDS} random moments make each call once, with the same output`, async () => {
  const random = seeded(SEED);
  const folder = await Deno.makeTempDir();
  const workspace = join(folder, "workspace");
  const data = join(folder, "data");
  await Deno.mkdir(workspace);
  await Deno.writeTextFile(join(folder, "rules.json"), JSON.stringify(RULES));
  let made = 0;
  const provider = recordingProvider(
    ({ messages }) =>
      messages.at(-1)?.role === "tool"
        ? { content: "Done." }
        : { tool_calls: [toolCall("run_program", { code: program(`program-${made++}`) })] },
    () => 0,
  );
  const args = [
    ...["--port", "0", "--workspace", workspace, "--data", data, "--approvals", join(folder, "rules.json")],
    ...["--base-url", provider.url, "--model", "simulated", "--profile", "openai"],
  ];
  const people: Person[] = [];
  let early = 0;
  try {
    for (let round = 0;; round++) {
      const server = await startServerProcess(args);
      let isKilled = false;
      try {
        if (round === 0) {
          for (let count = 0; count < SESSIONS; count++) {
            const { id } = await (await fetch(`${server.url}/tare/v1/sessions`, jsonPost({}))).json();
            people.push(new Person(id, data));
          }
        }
        const found = await check(people, { url: server.url, workspace });
        const isEnough = found.ended > 0 && found.resumed >= ROUNDS / 2 && found.requests > 0;
        // On a busy machine a server's life may be too short for a program.
        if (round >= 5 * ROUNDS || round >= ROUNDS && isEnough) {
          assert(isEnough, JSON.stringify(found));
          break;
        }
        const begun = people.map(() => Promise.withResolvers<void>());
        // Some are killed before any call ends, but not so often that the server gives up on a program.
        early = early < 2 && random() < 0.3 ? early + 1 : 0;
        if (early > 0) { for (const { resolve } of begun) resolve(); }
        const working = Promise.all(
          people.map((person, at) =>
            person.work(server.url, begun[at]!.resolve).catch((error) => {
              if (!isKilled || !(error instanceof TypeError)) throw error;
            })
          ),
        );
        await Promise.race([working, Promise.all(begun.map(({ promise }) => promise))]);
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
  } catch (cause) {
    throw new Error(`Failed with TARE_TEST_SEED=${SEED}`, { cause });
  } finally {
    await provider.close();
    await Deno.remove(folder, { recursive: true });
  }
});
