/**
 * The agent server with a stopwatch in it: the same handler, store, tools and model adapter as the start command's,
 * but without its limit of turns, and with `GET /bench/steps`, which hands out the steps measured since it was last
 * asked, and `GET /bench/writes`, which says what was committed since then.
 *
 * What a step adds is the sum of two times. The first runs from where the step begins (the arrival of the request that
 * starts the turn, then the end of the last tool call) until the request to the model is handed to `fetch`. The second
 * runs from the last byte of the model's reply until the next tool call starts, or the turn's end is committed. Between
 * them the provider is waited for, and between steps the tool. Time that a turn waits for other turns of this process
 * counts.
 *
 *     timed_server.ts DATA WORKSPACE PROVIDER_URL
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { AsyncLocalStorage } from "node:async_hooks";
import { join } from "@std/path";
import { openaiModel } from "@tare/loop/openai";
import type { Tool } from "@tare/messages";
import { loadTokenizer } from "@tare/tiktoken";
import { profileNamed } from "@tare/planner";
import { agentHandler, ALLOW_EVERYTHING } from "@tare/server";
import type { Store } from "@tare/conversation";
import { openStore } from "@tare/conversation/sqlite";
import { workspaceTools } from "@tare/loop/tools";

/** What one turn has added in its current step. */
class Stopwatch {
  #startedAt: number | undefined = performance.now();
  #addedMs = 0;

  start(): void {
    this.#startedAt = performance.now();
  }

  stop(): void {
    if (this.#startedAt !== undefined) this.#addedMs += performance.now() - this.#startedAt;
    this.#startedAt = undefined;
  }

  endStep(): void {
    this.stop();
    steps.push(this.#addedMs);
    this.#addedMs = 0;
  }
}

const steps: number[] = [];
/** What was committed; nothing until somebody asks, because it takes time to measure it. */
let writes: { commits: number; bytes: number } | undefined;
const turn = new AsyncLocalStorage<Stopwatch>();

async function timedFetch(input: string | URL | Request, init?: RequestInit): Promise<Response> {
  const stopwatch = turn.getStore();
  stopwatch?.stop();
  const response = await fetch(input, init);
  const pass = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    flush: () => stopwatch?.start(),
  });
  return new Response(response.body?.pipeThrough(pass) ?? null, response);
}

function timedTool(tool: Tool): Tool {
  return {
    ...tool,
    async run(args, context) {
      turn.getStore()?.endStep();
      try {
        return await tool.run(args, context);
      } finally {
        turn.getStore()?.start();
      }
    },
  };
}

function timedStore(store: Store): Store {
  return {
    ...store,
    async commit(records) {
      if (writes) {
        writes.commits += 1;
        writes.bytes += JSON.stringify(records).length;
      }
      await store.commit(records);
      const events = records.flatMap((record) => record.type === "events" ? record.events : []);
      if (events.some(({ type }) => type === "turn_end")) turn.getStore()?.endStep();
    },
  };
}

const [data = "", workspace = "", baseURL = ""] = Deno.args;
const tokenizer = await loadTokenizer();
const agent = agentHandler({
  model: (model) => openaiModel({ model, baseURL, fetch: timedFetch }),
  defaultModel: "after-0",
  approvals: { rules: ALLOW_EVERYTHING },
  tools: workspaceTools({ workspace }).map(timedTool),
  store: timedStore(await openStore(join(data, "tare.db"))),
  countTokens: () => Promise.resolve(tokenizer.count),
  profile: profileNamed("openai"),
  windowTokens: 128_000,
  maxRunningTurns: 1000,
  onError: console.error,
});

Deno.serve({
  hostname: "127.0.0.1",
  port: 0,
  onListen: ({ port }) => console.log(`server listens on http://127.0.0.1:${port}`),
}, (request) => {
  const { pathname } = new URL(request.url);
  if (pathname === "/bench/steps") return Response.json(steps.splice(0));
  if (pathname === "/bench/writes") {
    const told = Response.json(writes ?? {});
    writes = { commits: 0, bytes: 0 };
    return told;
  }
  return pathname.endsWith("/turns")
    ? turn.run(new Stopwatch(), () => agent.fetch(request))
    : agent.fetch(request);
});
