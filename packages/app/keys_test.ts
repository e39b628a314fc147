import { assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { profileNamed } from "@tare/planner";
import { type SimulatedReply, simulator } from "@tare/simulator";
import { agentClient } from "@tare/cli/parts";
import { readSettings } from "./settings/settings.ts";
import { startServer } from "./compose.ts";

type Sent = Readonly<Record<string, string>>;

/** A real server with a scripted provider and its data folder. */
class Place implements AsyncDisposable {
  readonly data: string;
  readonly replies: SimulatedReply[] = [];
  readonly seen: Headers[] = [];
  readonly bodies: string[] = [];
  readonly #provider: Deno.HttpServer<Deno.NetAddr>;
  readonly #args: readonly string[];
  #server!: Awaited<ReturnType<typeof startServer>>;

  private constructor(data: string, args: readonly string[]) {
    this.data = data;
    this.#args = args;
    const provider = simulator({
      model: { scripted: () => this.replies.shift() ?? { content: "I have nothing to say." } },
      tokenizer: { encode: (text) => Array.from(text, (letter) => letter.charCodeAt(0)) },
      profile: profileNamed("openai"),
    });
    this.#provider = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
      this.seen.push(request.headers);
      const body = await request.text();
      this.bodies.push(body);
      const { url, method, headers } = request;
      return await provider.fetch(new Request(url, { method, headers, ...(method === "POST" && { body }) }));
    });
  }

  static async start(args: readonly string[] = []): Promise<Place> {
    const data = await Deno.makeTempDir();
    await Deno.mkdir(`${data}/workspace`);
    const place = new Place(data, args);
    await place.restart();
    return place;
  }

  async restart(): Promise<void> {
    await this.#server?.close();
    const base = `http://127.0.0.1:${this.#provider.addr.port}/v1`;
    const flags = ["--port", "0", "--data", `${this.data}/kept`, "--workspace", `${this.data}/workspace`];
    const settings = readSettings(
      [...flags, "--model", "scripted", "--price", "input=1000,output=1000", ...this.#args],
      { OPENAI_BASE_URL: base, OPENAI_API_KEY: "sk-server" },
    );
    this.#server = await startServer(settings, () => {});
  }

  get url(): string {
    return this.#server.url;
  }

  get owner(): Sent {
    return bearer(JSON.parse(Deno.readTextFileSync(`${this.data}/kept/owner.json`)).key);
  }

  async add(name: string, settings: object = {}): Promise<Sent> {
    const { body } = await this.ask("POST /tare/v1/keys", this.owner, {
      name,
      routes: ["gateway", "agent"],
      ...settings,
    });
    return bearer(body.secret);
  }

  async ask(what: string, headers: Sent = {}, body?: unknown) {
    const [method = "", path = ""] = what.split(" ");
    const response = await fetch(this.url + path, {
      method,
      headers: { ...headers, ...(body !== undefined && { "content-type": "application/json" }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const isJson = response.headers.get("content-type") === "application/json";
    return {
      status: response.status,
      headers: response.headers,
      text,
      body: isJson ? JSON.parse(text) : undefined,
    };
  }

  async statuses(who: Sent, requests: readonly (readonly [string, unknown?])[]): Promise<number[]> {
    const statuses: number[] = [];
    for (const [what, body] of requests) statuses.push((await this.ask(what, who, body)).status);
    return statuses;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.close();
    await this.#provider.shutdown();
    await Deno.remove(this.data, { recursive: true });
  }
}

function bearer(secret: string): Sent {
  return { authorization: `Bearer ${secret}` };
}

const HELLO = { model: "scripted", messages: [{ role: "user", content: "Hello." }] };

const WRITE: SimulatedReply = {
  content: null,
  tool_calls: [{
    id: "w",
    type: "function",
    function: { name: "write_file", arguments: '{"path":"a.txt","content":"a"}' },
  }],
};

Deno.test("startServer() creates an owner's key that only its owner can read and that survives restarts", async () => {
  await using place = await Place.start();
  const path = `${place.data}/kept/owner.json`;
  const { key, ports } = JSON.parse(await Deno.readTextFile(path));
  assertMatch(key, /^tare_[\w-]{43}$/);
  assertEquals(ports, [Number(new URL(place.url).port)]);
  if (Deno.build.os !== "windows") assertEquals((await Deno.stat(path)).mode! & 0o777, 0o600);
  assertEquals((await place.ask("GET /tare/v1/key", place.owner)).body, {
    name: "owner",
    routes: ["gateway", "agent", "approve", "metrics"],
    isOwner: true,
  });
  await place.restart();
  const again = JSON.parse(await Deno.readTextFile(path));
  assertEquals([again.key, again.ports[0]], [key, Number(new URL(place.url).port)]);
});

Deno.test("keys: without a key a client can neither decide approvals nor read sessions, and its own calls don't run", async () => {
  await using place = await Place.start(["--unattended", "allow"]);
  const { owner } = place;
  const guest = {};
  const { body: { id } } = await place.ask("POST /tare/v1/sessions", owner, {});
  place.replies.push(WRITE);
  await place.ask(`POST /tare/v1/sessions/${id}/turns`, owner, { input: "Write a." });
  const { body: { approvals: [{ id: approvalId, callId }] } } = await place.ask(
    `GET /tare/v1/sessions/${id}/approvals`,
    owner,
  );
  const ownSession = (await place.ask("POST /tare/v1/sessions", guest, {})).body.id;
  place.replies.push(WRITE);
  await place.ask(`POST /tare/v1/sessions/${ownSession}/turns`, guest, { input: "Write a." });
  const yes = { decision: "always" };
  const allowing = { approvalRules: [{ tool: "*", decision: "allow" }] };
  assertEquals(
    await place.statuses(guest, [
      [`POST /tare/v1/sessions/${id}/approvals/${approvalId}`, yes],
      [`POST /tare/v1/sessions/${ownSession}/approvals/w`, yes],
      ["POST /tare/v1/sessions", allowing],
      ["GET /tare/v1/backup"],
      ["GET /tare/v1/keys"],
      ["POST /tare/v1/keys", { name: "me", routes: ["approve"] }],
      ["GET /tare/v1/sessions"],
      ["GET /tare/v1/spend"],
      ["GET /tare/v1/misses"],
      ["GET /tare/v1/overview"],
      ["GET /tare/v1/ledger"],
      [`GET /tare/v1/sessions/${id}`],
      [`GET /tare/v1/sessions/${id}/events`],
      [`GET /tare/v1/sessions/${id}/approvals`],
      [`POST /tare/v1/sessions/${id}/turns`, { input: "Go on." }],
      [`POST /tare/v1/sessions/${id}/cancel`, {}],
      [`DELETE /tare/v1/sessions/${id}`],
    ]),
    [401, 401, 403, 401, 401, 401, 401, 401, 401, 401, 401, 404, 404, 404, 404, 404, 404],
  );
  const refused = await place.ask(`POST /tare/v1/sessions/${ownSession}/approvals/w`, guest, yes);
  assertEquals(refused.body.error, {
    status: 401,
    code: "unauthorized",
    message: "Unauthorized: to approve calls, send the owner's key as `Authorization: Bearer KEY`. " +
      "The owner's key is in owner.json in the server's data folder, or is the server's TARE_TOKEN; commands send " +
      "their own TARE_TOKEN.",
  });
  // Calls that run without approval also run for other keys.
  place.replies.push(WRITE);
  const turn = await place.ask(`POST /tare/v1/sessions/${ownSession}/turns`, guest, {
    input: "Write.",
    unattended: true,
  });
  assertMatch(turn.text, /it needs approval, and no user can give it here/);
  place.replies.push(WRITE);
  const chat = await place.ask("POST /v1/chat/completions", guest, { ...HELLO, model: "agent" });
  assertEquals(chat.status, 200);
  assertEquals([...Deno.readDirSync(`${place.data}/workspace`)], []);
  // Approvals are still required, and the log contains the approving key.
  const answered = await place.ask(`POST /tare/v1/sessions/${id}/approvals/${approvalId}`, owner, {
    decision: "allow",
  });
  assertEquals(answered.status, 200);
  const follow = await place.ask(`GET /tare/v1/sessions/${id}/events?after=${answered.body.after}`, owner);
  const answers = follow.text.split("\n").filter((line) => line.includes("approval_answered"));
  assertEquals(answers.map((line) => JSON.parse(line.slice("data: ".length))), [
    {
      type: "approval_answered",
      approvalId: approvalId,
      id: callId,
      decision: "allow",
      by: "user",
      key: "owner",
    },
  ]);
  assertEquals([...Deno.readDirSync(`${place.data}/workspace`)].map(({ name }) => name), ["a.txt"]);
});

Deno.test("keys: each key reads and continues only its own sessions, after a restart too; the owner all", async () => {
  await using place = await Place.start();
  const [alice, bob] = [await place.add("alice"), await place.add("bob")];
  const made = async (who: Sent) => (await place.ask("POST /tare/v1/sessions", who, {})).body.id as string;
  const agents = { alice: await made(alice), bob: await made(bob), owner: await made(place.owner) };
  const passing = async (who: Sent) =>
    (await place.ask("POST /v1/chat/completions", { ...who, "x-tare-session": "same" }, HELLO)).headers
      .get("x-tare-session")!;
  const gateways = {
    alice: await passing(alice),
    bob: await passing(bob),
    owner: await passing(place.owner),
  };
  assertEquals(new Set(Object.values(gateways)).size, 3);
  await place.ask(`POST /tare/v1/sessions/${agents.alice}/turns`, alice, { input: "Hello." });
  const response = await place.ask("POST /v1/responses", alice, { model: "agent", input: "Hello." });
  const check = async () => {
    const listed = async (who: Sent, query = "") => {
      const { body } = await place.ask(`GET /tare/v1/sessions${query}`, who);
      return body.sessions.map(({ id }: { readonly id: string }) => id).sort();
    };
    const { body: { id: _, ...stored } } = await place.ask(`GET /v1/responses/${response.body.id}`, alice);
    const own = [agents.alice, gateways.alice, response.headers.get("tare-session")!];
    assertEquals(stored.status, "completed");
    assertEquals(await listed(alice), own.toSorted());
    assertEquals(await listed(alice, "?kind=gateway"), [gateways.alice]);
    assertEquals(await listed(bob), [agents.bob, gateways.bob].sort());
    assertEquals((await listed(place.owner)).length, 7);
    const ofAlice = [`/tare/v1/sessions/${agents.alice}`, `/tare/v1/sessions/${gateways.alice}`].flatMap((
      at,
    ) => ["", "/calls", "/prompt", "/spend", "/pins", "/archive/0123456789abcdef"].map((rest) => at + rest));
    const reading = [
      ...ofAlice,
      ...["/events", "/export", "/quote", "/approvals"].map((rest) =>
        `/tare/v1/sessions/${agents.alice}${rest}`
      ),
      `/tare/v1/misses?session=${gateways.alice}`,
      `/v1/responses/${response.body.id}`,
      `/v1/responses/${response.body.id}/input_items`,
    ].map((path) => [`GET ${path}`] as const);
    assertEquals(new Set(await place.statuses(bob, reading)), new Set([404]));
    const acting = [
      [`POST /tare/v1/sessions/${agents.alice}/turns`, { input: "Hello." }],
      [`POST /tare/v1/sessions/${agents.alice}/cancel`, {}],
      [`POST /tare/v1/sessions/${agents.alice}/keep_alive`, { minutes: 1 }],
      [`POST /tare/v1/sessions/${gateways.alice}/pins`, { place: 0, wish: "retain" }],
      [`DELETE /tare/v1/sessions/${agents.alice}`],
      [`DELETE /tare/v1/sessions/${gateways.alice}`],
      [`DELETE /v1/responses/${response.body.id}`],
    ] as const;
    assertEquals(new Set(await place.statuses(bob, acting)), new Set([404]));
    const follow = { model: "agent", input: "And?", previous_response_id: response.body.id };
    assertEquals((await place.ask("POST /v1/responses", bob, follow)).status, 400);
  };
  await check();
  const spent = async (who: Sent) => {
    const { body: { rows } } = await place.ask("GET /tare/v1/spend?by=session", who);
    const overview = await place.ask("GET /tare/v1/overview", who);
    const ledger = await place.ask("GET /tare/v1/ledger", who);
    return [rows.length, overview.body.all.calls, ledger.body.planned.sessions];
  };
  assertEquals([await spent(bob), await spent(alice), await spent(place.owner)], [[1, 1, 1], [3, 3, 1], [
    5,
    5,
    3,
  ]]);
  // Idempotency keys and conversations are separate for each key.
  const once = { "idempotency-key": "k" };
  const first = await place.ask("POST /tare/v1/sessions", { ...alice, ...once }, {});
  const second = await place.ask("POST /tare/v1/sessions", { ...bob, ...once }, {});
  assertNotEquals(first.body.id, second.body.id);
  await place.ask(`DELETE /tare/v1/sessions/${first.body.id}`, alice);
  await place.ask(`DELETE /tare/v1/sessions/${second.body.id}`, bob);
  await place.restart();
  await check();
});

Deno.test("keys: content evicted from one conversation can't be recalled in another, under the same key or another", async () => {
  await using place = await Place.start(["--truncate-at", "100"]);
  const [alice, bob] = [await place.add("alice"), await place.add("bob")];
  const secret = Array.from({ length: 300 }, (_, line) => `line ${line} of alice`).join("\n");
  const call = { id: "1", type: "function", function: { name: "read", arguments: "{}" } };
  const message = (result: string) => ({
    model: "scripted",
    tools: [{ type: "function", function: { name: "read", parameters: { type: "object", properties: {} } } }],
    messages: [
      { role: "user", content: "Read the file, please." },
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: "1", content: result },
    ],
  });
  const reply = await place.ask("POST /v1/chat/completions", alice, message(secret));
  const session = reply.headers.get("x-tare-session");
  const ref = /ref ([0-9a-f]{16})/.exec(place.bodies.at(-1) ?? "")?.[1];
  const recall = (): SimulatedReply => ({
    content: null,
    tool_calls: [{
      id: "r",
      type: "function",
      function: { name: "recall", arguments: JSON.stringify({ ref }) },
    }],
  });
  /** Returns the result of a recall in another conversation with the same start. */
  const recalled = async (who: Sent, result = secret.slice(0, 40)) => {
    place.replies.push(recall(), { content: "Done." });
    const answer = await place.ask("POST /v1/chat/completions", who, message(result));
    const { messages } = JSON.parse(place.bodies.at(-1) ?? "{}");
    return { session: answer.headers.get("x-tare-session"), otherText: messages.at(-1).content as string };
  };
  assertEquals(typeof ref, "string");
  const check = async () => {
    for (const who of [bob, { ...bob, "x-tare-session": session! }, alice]) {
      const { session: other, otherText } = await recalled(who);
      assertNotEquals(other, session);
      assertMatch(otherText, /no original has this reference/);
    }
    const { otherText } = await recalled({ ...alice, "x-tare-session": "a fork" }, secret);
    assertMatch(otherText, /line 299 of alice/);
    assertEquals((await place.ask(`GET /tare/v1/sessions/${session}/archive/${ref}`, bob)).status, 404);
    assertEquals((await place.ask(`GET /tare/v1/sessions/${session}/archive/${ref}`, alice)).text, secret);
  };
  await check();
  await place.restart();
  await check();
});

Deno.test("keys: a key with an exhausted budget is refused in each protocol's format, after a restart too, and the page reads it", async () => {
  await using place = await Place.start();
  const alice = await place.add("alice", { budgetUsdPerDay: 0.001 });
  const bob = await place.add("bob", { budgetUsdPerDay: 1000 });
  const { body: { id } } = await place.ask("POST /tare/v1/sessions", alice, {});
  // A request that has begun may exceed the budget.
  assertEquals((await place.ask("POST /v1/chat/completions", alice, HELLO)).status, 200);
  const words = "Budget exceeded: key alice has spent its budget of $0.001 for today";
  const check = async () => {
    const chat = await place.ask("POST /v1/chat/completions", alice, HELLO);
    assertEquals([chat.status, chat.body.error.code], [402, "insufficient_quota"]);
    assertEquals(chat.body.error.message.startsWith(words), true);
    const messages = await place.ask("POST /v1/messages", alice, { ...HELLO, max_tokens: 1 });
    assertEquals([messages.status, messages.body.type, messages.body.error.message.startsWith(words)], [
      402,
      "error",
      true,
    ]);
    for (const body of [{ ...HELLO, model: "agent" }, { input: "Hello.", model: "agent" }]) {
      const path = "messages" in body ? "/v1/chat/completions" : "/v1/responses";
      const agent = await place.ask(`POST ${path}`, alice, body);
      assertEquals([agent.status, agent.body.error.message.startsWith(words)], [402, true]);
    }
    const turn = await place.ask(`POST /tare/v1/sessions/${id}/turns`, alice, { input: "Hello." });
    assertEquals([turn.status, turn.body.error.code], [402, "budget_spent"]);
    // Reading is possible, and other keys aren't affected.
    assertEquals((await place.ask("GET /tare/v1/sessions", alice)).status, 200);
    const { body: key } = await place.ask("GET /tare/v1/key", alice);
    assertEquals([key.budgetUsdPerDay, key.spentUsd > 0.001], [0.001, true]);
    assertEquals((await place.ask("POST /v1/chat/completions", bob, HELLO)).status, 200);
  };
  await check();
  await place.restart();
  await check();
  const { body: { keys } } = await place.ask("GET /tare/v1/keys", place.owner);
  const { body: { all } } = await place.ask("GET /tare/v1/overview", bob);
  assertEquals(keys.map(({ name }: { readonly name: string }) => name), ["alice", "bob"]);
  assertEquals(keys[1].spentUsd.toFixed(9), all.usd.toFixed(9));
});

Deno.test("keys: a turn of the agent ends once its key's budget is exhausted, and is charged to it", async () => {
  await using place = await Place.start(["--approvals", "allow"]);
  const alice = await place.add("alice", { budgetUsdPerDay: 0.001 });
  const { body: { id } } = await place.ask("POST /tare/v1/sessions", alice, {});
  place.replies.push(WRITE, { content: "Never said." });
  const turn = await place.ask(`POST /tare/v1/sessions/${id}/turns`, alice, { input: "Write a." });
  assertMatch(turn.text, /"type":"turn_end".*"reason":"budget".*key alice has spent its budget/);
  assertEquals(place.replies.length, 1);
  const { body: { all } } = await place.ask("GET /tare/v1/overview", alice);
  const { body: { spentUsd } } = await place.ask("GET /tare/v1/key", alice);
  assertEquals(spentUsd.toFixed(9), all.usd.toFixed(9));
});

Deno.test("keys: a key with a budget can't use requests that no ledger records", async () => {
  await using place = await Place.start();
  const alice = await place.add("alice", { budgetUsdPerDay: 0.001 });
  for (const path of ["/v1/embeddings", "/v1/images/generations", "/v1/batches"]) {
    const { status, body } = await place.ask(`POST ${path}`, alice, { input: "x" });
    assertEquals([status, body.error.code], [403, "price_unknown"], path);
  }
  const off = await place.ask("POST /v1/chat/completions", { ...alice, "x-tare": "off" }, HELLO);
  assertEquals(off.status, 200);
  assertEquals((await place.ask("POST /v1/chat/completions", alice, HELLO)).status, 402);
  const bob = await place.add("bob");
  assertNotEquals((await place.ask("POST /v1/embeddings", bob, { input: "x" })).status, 403);
});

Deno.test("keys: a key is limited to its routes and rate, and stops working when it is removed", async () => {
  await using place = await Place.start();
  const gateway = await place.add("g", { routes: ["gateway"] });
  const agent = await place.add("a", { routes: ["agent"] });
  const chat = ["POST /v1/chat/completions", HELLO] as const;
  const asAgent = ["POST /v1/chat/completions", { ...HELLO, model: "agent" }] as const;
  const session = ["POST /tare/v1/sessions", {}] as const;
  assertEquals(await place.statuses(gateway, [chat, asAgent, session]), [200, 403, 403]);
  assertEquals(await place.statuses(agent, [chat, asAgent, session]), [403, 200, 201]);
  const refused = await place.ask(chat[0], agent, chat[1]);
  assertEquals(refused.body.error.message, "Forbidden: key a is for agent, not for gateway.");
  const rated = await place.add("r", { perMinute: 2 });
  const answers = [await place.ask(chat[0], rated, chat[1]), await place.ask(chat[0], rated, chat[1])];
  // The minute may end in between.
  while (answers.at(-1)!.status === 200 && answers.length < 10) {
    answers.push(await place.ask(chat[0], rated, chat[1]));
  }
  const last = answers.at(-1)!;
  assertEquals([last.status, last.body.error.code], [429, "rate_limit_exceeded"]);
  assertMatch(last.headers.get("retry-after") ?? "", /^\d+$/);
  // The provider received the server's key only.
  assertEquals(
    new Set(place.seen.map((headers) => headers.get("authorization"))),
    new Set(["Bearer sk-server"]),
  );
  assertEquals(place.seen.some((headers) => headers.has("x-tare-key")), false);
  assertEquals((await place.ask("DELETE /tare/v1/keys/g", place.owner)).status, 204);
  const gone = await place.ask(chat[0], gateway, chat[1]);
  assertEquals([gone.status, gone.body.error.message], [
    401,
    "Unauthorized: the key is unknown or was removed. " +
    "The owner's key is in owner.json in the server's data folder, or is the server's TARE_TOKEN; commands send " +
    "their own TARE_TOKEN.",
  ]);
  assertEquals((await place.ask("DELETE /tare/v1/keys/g", place.owner)).status, 404);
  assertEquals((await place.ask("DELETE /tare/v1/keys/owner", place.owner)).status, 404);
});

Deno.test("keys: only the owner, or a permitted key, decides approvals; the log contains the key", async () => {
  await using place = await Place.start();
  const alice = await place.add("alice");
  const carol = await place.add("carol", { routes: ["agent", "approve"] });
  const asking = async (who: Sent) => {
    const { body: { id } } = await place.ask("POST /tare/v1/sessions", who, {});
    place.replies.push(WRITE);
    await place.ask(`POST /tare/v1/sessions/${id}/turns`, who, { input: "Write a." });
    return id as string;
  };
  const [ofAlice, ofCarol] = [await asking(alice), await asking(carol)];
  const answer = async (id: string, who: Sent) => {
    const { body } = await place.ask(`GET /tare/v1/sessions/${id}/approvals`, place.owner);
    const path = `/tare/v1/sessions/${id}/approvals/${body.approvals[0].id}`;
    return await place.ask(`POST ${path}`, who, { decision: "deny" });
  };
  const refused = await answer(ofAlice, alice);
  assertEquals([refused.status, refused.body.error.message], [
    403,
    "Forbidden: key alice may not approve calls. Send the owner's key, or one that was added with --routes approve.",
  ]);
  assertEquals((await answer(ofAlice, carol)).status, 404);
  assertEquals([(await answer(ofAlice, place.owner)).status, (await answer(ofCarol, carol)).status], [
    200,
    200,
  ]);
  const who = async (id: string) => {
    const { text } = await place.ask(`GET /tare/v1/sessions/${id}/events`, place.owner);
    return /"type":"approval_answered".*"key":"(\w+)"/.exec(text)?.[1];
  };
  assertEquals([await who(ofAlice), await who(ofCarol)], ["owner", "carol"]);
  const rules = { approvalRules: [{ tool: "*", decision: "allow" }] };
  assertEquals(
    [
      await place.statuses(alice, [["POST /tare/v1/sessions", rules]]),
      await place.statuses(carol, [["POST /tare/v1/sessions", rules]]),
    ],
    [[403], [201]],
  );
});

Deno.test("keys: the backup and private data aren't readable by pages of other sites", async () => {
  await using place = await Place.start();
  const paths = [
    "/tare/v1/backup",
    "/tare/v1/sessions",
    "/tare/v1/overview",
    "/tare/v1/agent",
    "/tare/v1/key",
    "/v1/models",
  ];
  for (const site of ["cross-site", "same-site"]) {
    for (const who of [{}, place.owner]) {
      const routes = paths.map((path) => [`GET ${path}`] as const);
      assertEquals(await place.statuses({ ...who, "sec-fetch-site": site }, routes), paths.map(() => 403));
    }
  }
  assertEquals((await place.ask("GET /tare/v1/backup")).status, 401);
  assertEquals((await place.ask("GET /tare/v1/backup", await place.add("alice"))).status, 403);
  assertEquals((await place.ask("GET /tare/v1/backup", place.owner)).status, 200);
});

Deno.test("agentClient() adds, lists and removes keys", async () => {
  await using place = await Place.start();
  const client = agentClient(place.url, place.owner.authorization!.slice("Bearer ".length));
  await client.addKey({ name: "alice", routes: ["agent"], perMinute: 3 });
  assertEquals((await client.keys()).map(({ createdAt: _, ...key }) => key), [
    { name: "alice", routes: ["agent"], perMinute: 3, spentUsd: 0 },
  ]);
  await client.removeKey("alice");
  assertEquals(await client.keys(), []);
});
