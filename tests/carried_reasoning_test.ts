import { assert, assertEquals } from "@std/assert";
import { ServerSentEventParseStream } from "@std/http";
import { join } from "@std/path";
import type { LoopEvent } from "@tare/loop";
import { anthropicModel } from "@tare/loop/anthropic";
import { openaiModel } from "@tare/loop/openai";
import type { Model, Tool } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { agentHandler, type HttpAgent } from "@tare/server";
import { type SimulatedReply, type Simulator, simulator, toolCall } from "@tare/simulator";
import { openCheckpoints } from "@tare/tools/undo";
import { openStore } from "@tare/session/sqlite";

const tokenizer = { encode: (text: string) => text.split(" ").map((word) => word.length) };
const words = (tokens: number, word: string) => Array.from({ length: tokens }, () => word).join(" ");

const WAYS = {
  responses: (access) => openaiModel({ ...access, protocol: "responses", reasoning: "sealed" }),
  adaptive: (access) => anthropicModel({ ...access, baseURL: "http://provider", thinking: "adaptive" }),
  budget: (access) => anthropicModel({ ...access, baseURL: "http://provider", thinking: "budget" }),
  chat: (access) => openaiModel({ ...access, reasoning: "some" }),
} satisfies Record<string, (access: Access) => Model>;

interface Access {
  readonly model: string;
  readonly baseURL: string;
  readonly apiKey: string;
  readonly maxRetries: number;
  readonly fetch: typeof fetch;
}
type Way = keyof typeof WAYS;

interface Sent {
  readonly body: {
    readonly model: string;
    readonly input?: readonly Record<string, unknown>[];
    readonly messages?: readonly Record<string, unknown>[];
  } & Record<string, unknown>;
  readonly status: number;
}

/** Starts a provider of all protocols whose models reason, and a restartable agent on it. */
async function bench(replies: SimulatedReply[]) {
  const provider: Simulator = simulator({
    model: () => replies.shift() ?? { reasoning_content: words(20, "at-last"), content: "Done." },
    profile: profileNamed("openai-5.6"),
    tokenizer,
    now: () => 0,
  });
  const sent: Sent[] = [];
  const fetch = async (input: string | URL | Request, init?: RequestInit) => {
    const request = new Request(input, init);
    const body = await request.clone().json();
    const response = await provider.fetch(request);
    sent.push({ body, status: response.status });
    return response;
  };
  const folder = await Deno.makeTempDir();
  const workspace = join(folder, "work");
  await Deno.mkdir(workspace);
  const watched: { read: () => void } = { read: () => {} };
  const tool = (name: string, run: Tool["run"]): Tool => ({
    definition: { type: "function", function: { name, parameters: { type: "object" } } },
    ...(name === "read" && { stance: "rederivable" as const }),
    run,
  });
  let results = 0;
  const tools = [
    tool("read", () => {
      watched.read();
      return words(results < 4 ? 40 : 2_000, `r${results++}`);
    }),
    tool("write", () => "written"),
    tool("save", async () => {
      await Deno.writeTextFile(join(workspace, "a.txt"), "written");
      return "saved";
    }),
  ];
  const start = async () => {
    const store = await openStore(join(folder, "tare.db"));
    const checkpoints = openCheckpoints({ workspace, folder: join(folder, "undo") });
    const agent = agentHandler({
      models: {
        model: (model) =>
          WAYS[model.split("-")[0] as Way]({
            ...{ model, baseURL: "http://provider/v1", apiKey: "key", maxRetries: 0, fetch },
          }),
        defaultModel: "responses",
        efforts: (model) =>
          model.startsWith("responses") ? ["none", "low", "high"] : ["low", "medium", "high"],
        countTokens: () => Promise.resolve((text) => tokenizer.encode(text).length),
        profile: () => profileNamed("openai-5.6"),
        windowTokens: 200_000,
      },
      approvals: {
        rules: ["read", "save", "write"].map((tool) => ({
          tool,
          decision: tool === "write" ? "ask" as const : "allow" as const,
        })),
      },
      tools,
      store: { ...store, now: () => 0 },
      workspace: { checkpoints },
      advanced: { delegates: true },
    });
    const close = async (options?: { readonly leaveWithinMs: number }) => {
      await agent.close(options);
      await checkpoints.close();
      await store.close();
    };
    return { agent, close };
  };
  return {
    start,
    watched,
    sent,
    requests: provider.requests,
    remove: () => Deno.remove(folder, { recursive: true }),
  };
}

async function ask({ fetch }: HttpAgent, method: string, path: string, body?: unknown): Promise<Response> {
  const headers = { "content-type": "application/json", host: "127.0.0.1:8787" };
  const url = `http://127.0.0.1:8787/tare/v1/sessions${path}`;
  return await fetch(
    new Request(url, { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) }),
  );
}

async function eventsOf({ body }: Response): Promise<LoopEvent[]> {
  const events = await Array.fromAsync(body!.pipeThrough(new ServerSentEventParseStream()));
  return events.map(({ data }) => JSON.parse(data!));
}

async function turn(agent: HttpAgent, id: string, input: string, more: object = {}): Promise<LoopEvent[]> {
  return await eventsOf(await ask(agent, "POST", `/${id}/turns`, { input, ...more }));
}

function ends(events: readonly LoopEvent[]): string[] {
  return events.flatMap((event) => event.type === "turn_end" ? [event.reason] : []);
}

function steps(count: number, name: string): SimulatedReply[] {
  return Array.from({ length: count }, (_, step) => ({
    reasoning_content: words(30, `${name}${step}`),
    ...(step % 5 === 0 && { content: `At ${step}.` }),
    tool_calls: [
      toolCall("read", { path: `${name}-${step}-a` }),
      toolCall("read", { path: `${name}-${step}-b` }),
    ],
  }));
}

function pieces({ body: { input, messages } }: Sent): readonly string[] {
  // Consecutive user content is one message to Anthropic.
  const list = input ??
    (messages ?? []).flatMap((message) =>
      Array.isArray(message.content)
        ? message.content.map((block: unknown): unknown => [message.role, block])
        : [message]
    );
  return list.map((piece) =>
    JSON.stringify(piece, (name, value) => name === "cache_control" ? undefined : value)
  );
}

function isBroken(sent: readonly Sent[], at: number): boolean {
  const before = sent[at - 1];
  return before !== undefined && !pieces(before).every((piece, place) => pieces(sent[at]!)[place] === piece);
}

function rewrites(events: readonly LoopEvent[]): number {
  return new Set(events.flatMap((event) => event.type === "context_rewritten" ? [event.step] : [])).size;
}

for (const way of Object.keys(WAYS) as Way[]) {
  Deno.test(`carried reasoning, ${way}: it is sent back unchanged over a long pruned loop, an approval, a restart and a copy`, async () => {
    const writes = {
      reasoning_content: words(30, "sure"),
      tool_calls: [toolCall("read", { path: "last" }), toolCall("write", { path: "a" })],
    };
    const replies = [...steps(32, "x"), writes, ...steps(3, "y"), {
      reasoning_content: "So.",
      content: "Both.",
    }];
    const { start, sent, requests, remove } = await bench(replies);
    try {
      let { agent, close } = await start();
      const { id } = await (await ask(agent, "POST", "", { model: way, effort: "high" })).json();
      const first = await turn(agent, id, words(500, "please"));
      assertEquals(ends(first), ["approval"]);
      await close();

      ({ agent, close } = await start());
      const { approvals } = await (await ask(agent, "GET", `/${id}/approvals`)).json();
      const { lastEvent } = await (await ask(agent, "GET", `/${id}`)).json();
      await ask(agent, "POST", `/${id}/approvals/${approvals[0].id}`, { decision: "allow" });
      const second = await eventsOf(await ask(agent, "GET", `/${id}/events?after=${lastEvent}`));
      assertEquals(ends(second), ["completed"]);
      const third = await turn(agent, id, "And now?");
      assertEquals(ends(third), ["completed"]);
      assertEquals(sent.map(({ status }) => status), sent.map(() => 200));
      // Each request extends the one before, except after rewrites.
      const broken = sent.filter((_, at) => isBroken(sent, at)).length;
      assertEquals(broken, rewrites(first) + rewrites(second) + rewrites(third));
      assert(rewrites(first) > 0, "a loop this long is pruned");
      // The previous prompt was read from the cache, where it was long enough and nothing was rewritten.
      const unread = requests.filter(({ cachedTokens }, at) => {
        const { promptTokens = 0 } = requests[at - 1] ?? {};
        return promptTokens > 1_200 && !isBroken(sent, at) && cachedTokens <= promptTokens - 128;
      });
      assertEquals(unread, []);

      // A copy of the messages continues with their sealed content.
      const lines = await (await ask(agent, "GET", `/${id}/export`)).text();
      const copied = await agent.fetch(
        new Request("http://127.0.0.1:8787/tare/v1/sessions/import", {
          method: "POST",
          headers: { "content-type": "application/x-ndjson", host: "127.0.0.1:8787" },
          body: lines,
        }),
      );
      const { sessions: [copy] } = await copied.json();
      await ask(agent, "POST", `/${copy.id}/model`, { model: way, effort: "low" });
      assertEquals(ends(await turn(agent, copy.id, "Once more.")), ["completed"]);
      const last = JSON.stringify(sent.at(-1)!.body);
      const carried = way === "responses"
        ? "encrypted_content"
        : way === "chat"
        ? "reasoning_content"
        : "signature";
      assert(last.includes(carried), "reasoning is there");
      assertEquals(sent.at(-1)!.status, 200);
      await close();
    } finally {
      await remove();
    }
  });
}

for (const way of Object.keys(WAYS) as Way[]) {
  Deno.test(`carried reasoning, ${way}: it stays with its step over an abandoned turn, a subagent, and going back`, async () => {
    const one = (name: string, args: object, thought: string): SimulatedReply => ({
      reasoning_content: words(10, thought),
      tool_calls: [toolCall(name, { ...args })],
    });
    const { start, sent, watched, remove } = await bench([
      ...steps(4, "x"),
      { reasoning_content: "So.", content: "All four." },
      one("read", { path: "b" }, "second"),
      one("delegate", { task: "Look for it." }, "helped"),
      ...[one("read", { path: "c" }, "helping"), { reasoning_content: "There.", content: "It is in c." }],
      one("save", { path: "a" }, "writing"),
      { reasoning_content: "Done.", content: "Written." },
      { reasoning_content: "Again.", content: "As stated: all four." },
    ]);
    try {
      let { agent, close } = await start();
      const { id } = await (await ask(agent, "POST", "", {
        ...{ model: way, effort: "high" },
      })).json();
      let reads = 0;
      const left = Promise.withResolvers<void>();
      watched.read = () => {
        if (++reads === 5) close({ leaveWithinMs: 60_000 }).then(left.resolve, left.reject);
      };
      assertEquals(ends(await turn(agent, id, "Read all.").catch(() => [])), []);
      await left.promise;
      ({ agent, close } = await start());
      const going = ask(agent, "GET", `/${id}/events?after=0`).then(eventsOf);
      await agent.attend();
      assertEquals(ends(await going), ["completed"]);
      const again = await turn(agent, id, "And what else?");
      assertEquals(ends(again), ["completed"]);
      assertEquals(sent.map(({ status }) => status), sent.map(() => 200));

      const undone = await (await ask(agent, "POST", `/${id}/undo`, { conversation: true })).json();
      assertEquals(ends(await turn(agent, undone.session.id, "Once more?")), ["completed"]);
      assertEquals([sent.length, sent.at(-1)!.status], [12, 200]);
      // Before that turn: its prefix is the prefix of the current prompt.
      const before = sent.findLast(({ body }) => !JSON.stringify(body).includes("And what else?"))!;
      assertEquals(pieces(sent.at(-1)!).slice(0, pieces(before).length), pieces(before));
      await close();
    } finally {
      await remove();
    }
  });
}

Deno.test("carried reasoning: another model sees the text, and sealed content is sent back only to the model that wrote it", async () => {
  const replies = (): SimulatedReply[] => [
    { reasoning_content: words(5, "hm"), tool_calls: [toolCall("read", { path: "a" })] },
    { reasoning_content: "So.", content: "It contains a." },
  ];
  const order: Way[] = ["responses", "adaptive", "chat", "budget", "responses", "chat"];
  const { start, sent: got, remove } = await bench(order.flatMap(replies));
  try {
    const { agent, close } = await start();
    const { id } = await (await ask(agent, "POST", "", { model: "responses", effort: "high" })).json();
    for (const way of order) {
      const chosen = await ask(agent, "POST", `/${id}/model`, { model: way });
      assertEquals((await chosen.json()).session.model, way);
      assertEquals(ends(await turn(agent, id, `Ask ${way}.`)), ["completed"]);
    }
    assertEquals(got.map(({ status }) => status), got.map(() => 200));
    const kinds = (at: number) => (got[at]!.body.input ?? []).map(({ type }) => type);
    // Replies over responses return unchanged; those of others in between have no reasoning.
    assertEquals(pieces(got[8]!).slice(0, pieces(got[1]!).length), pieces(got[1]!));
    assertEquals(kinds(8).filter((type) => type === "reasoning").length, 2);
    assertEquals(JSON.stringify(got[2]!.body).includes("encrypted"), false);
    // A model that requires reasoning in each reply gets a blank for others' replies.
    const replies = (got.at(-1)!.body.messages ?? []).filter(({ role }) => role === "assistant");
    assertEquals(replies.map(({ reasoning_content }) => reasoning_content), [
      ...[" ", " ", " ", " "],
      ...["hm hm hm hm hm", "So."],
      ...[" ", " ", " ", " "],
      "hm hm hm hm hm",
    ]);
    assertEquals(replies.some((reply) => "carried" in reply), false);
    await close();
  } finally {
    await remove();
  }
});
