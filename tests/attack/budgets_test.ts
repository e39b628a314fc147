import { assert, assertEquals } from "@std/assert";
import { readSettings } from "../../packages/app/settings/settings.ts";
import { startServer } from "../../packages/app/compose.ts";

type Ending = "whole" | "open" | "broken";

const WORDS = 4_000;

/** Server with a provider that streams many words, and a key with a daily budget in dollars. */
class Spending implements AsyncDisposable {
  readonly url: string;
  ending: Ending = "whole";
  calls = 0;
  readonly #auth: Record<string, string>;
  readonly #stop: () => Promise<void>;

  private constructor(url: string, secret: string, stop: () => Promise<void>) {
    this.url = url;
    this.#auth = { authorization: `Bearer ${secret}`, "content-type": "application/json" };
    this.#stop = stop;
  }

  static async start(budgetUsdPerDay: number): Promise<Spending> {
    const folder = await Deno.makeTempDir();
    await Deno.mkdir(`${folder}/workspace`);
    const known: { spending?: Spending } = {};
    const provider = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
      await request.text();
      const { spending } = known;
      if (!spending || !request.url.endsWith("/chat/completions")) return new Response(null, { status: 404 });
      spending.calls++;
      return streamed(spending.ending);
    });
    const flags = ["--port", "0", "--data", `${folder}/kept`, "--workspace", `${folder}/workspace`];
    const settings = readSettings(
      [...flags, "--model", "m", "--price", "input=1,output=1", "--approvals", "allow"],
      { OPENAI_BASE_URL: `http://127.0.0.1:${provider.addr.port}/v1`, OPENAI_API_KEY: "sk" },
    );
    const server = await startServer(settings, () => {});
    const { key } = JSON.parse(await Deno.readTextFile(`${folder}/kept/owner.json`));
    const made = await fetch(`${server.url}/tare/v1/keys`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ name: "alice", routes: ["gateway", "agent"], budgetUsdPerDay }),
    });
    const { secret } = await made.json();
    return known.spending = new Spending(server.url, secret, async () => {
      await server.close();
      await provider.shutdown();
      await Deno.remove(folder, { recursive: true });
    });
  }

  post(path: string, body: object): Promise<Response> {
    return fetch(this.url + path, { method: "POST", headers: this.#auth, body: JSON.stringify(body) });
  }

  async spent(): Promise<{ readonly key: number; readonly totals: number }> {
    const read = async (path: string) => await (await fetch(this.url + path, { headers: this.#auth })).json();
    const [key, spend] = [await read("/tare/v1/key"), await read("/tare/v1/spend?by=day")];
    return { key: key.spentUsd, totals: spend.all.usd };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stop();
  }
}

function streamed(ending: Ending): Response {
  const chunk = (delta: object, more: object = {}) =>
    new TextEncoder().encode(
      `data: ${
        JSON.stringify({
          id: "c",
          object: "chat.completion.chunk",
          choices: [{ index: 0, delta, finish_reason: null, ...more }],
        })
      }\n\n`,
    );
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start(controller) {
      for (let at = 0; at < WORDS; at += 100) controller.enqueue(chunk({ content: "word ".repeat(100) }));
      if (ending === "open") return;
      if (ending === "broken") return controller.close();
      controller.enqueue(chunk({}, { finish_reason: "stop" }));
      const usage = { prompt_tokens: 1000, completion_tokens: WORDS, total_tokens: 1000 + WORDS };
      controller.enqueue(
        new TextEncoder().encode(
          `data: ${JSON.stringify({ id: "c", choices: [], usage })}\n\ndata: [DONE]\n\n`,
        ),
      );
      controller.close();
    },
  });
  return new Response(body, { headers: { "content-type": "text/event-stream" } });
}

async function leave(response: Response, bytes: number): Promise<void> {
  const reader = response.body!.getReader();
  for (let read = 0; read < bytes;) {
    const { done, value } = await reader.read();
    if (done) return;
    read += value.length;
  }
  await reader.cancel();
}

const HELLO = { model: "m", messages: [{ role: "user", content: "Hello." }], stream: true };

/** Ways to make a model write without reading its whole reply. */
const WAYS: Readonly<Record<string, (place: Spending) => Promise<number>>> = {
  "a chat client of the gateway that disconnects": async (place) => {
    place.ending = "open";
    const response = await place.post("/v1/chat/completions", HELLO);
    if (response.ok) await leave(response, 20_000);
    else await response.body?.cancel();
    return response.status;
  },
  "a chat client of the agent that disconnects": async (place) => {
    place.ending = "open";
    const response = await place.post("/v1/chat/completions", { ...HELLO, model: "agent" });
    if (response.ok) await leave(response, 20_000);
    else await response.body?.cancel();
    return response.status;
  },
  "a turn that is cancelled": async (place) => {
    place.ending = "open";
    const { id } = await (await place.post("/tare/v1/sessions", {})).json();
    const response = await place.post(`/tare/v1/sessions/${id}/turns`, { input: "Hello." });
    if (!response.ok) {
      await response.body?.cancel();
      return response.status;
    }
    const reader = response.body!.getReader();
    let read = 0;
    while (read < 15_000) read += (await reader.read()).value?.length ?? Infinity;
    await (await place.post(`/tare/v1/sessions/${id}/cancel`, {})).body?.cancel();
    while (!(await reader.read()).done);
    return response.status;
  },
  "a turn whose replies break off": async (place) => {
    place.ending = "broken";
    const { id } = await (await place.post("/tare/v1/sessions", {})).json();
    const response = await place.post(`/tare/v1/sessions/${id}/turns`, { input: "Hello." });
    await response.text();
    return response.status;
  },
};

for (const [way, ask] of Object.entries(WAYS)) {
  Deno.test(`budgets: ${way} is paid for, and its key's budget holds`, async () => {
    await using place = await Spending.start(0.01);
    let status = 200;
    for (let times = 0; times < 20 && status !== 402; times++) status = await ask(place);
    // The rest of a request is recorded once its client's disconnect is detected.
    for (let times = 0; times < 200 && status !== 402 && (await place.spent()).key < 0.01;) times++;
    const refused = await place.post("/v1/chat/completions", HELLO);
    await refused.text();
    assertEquals(refused.status, 402);
    const { key, totals } = await place.spent();
    assertEquals(key.toFixed(9), totals.toFixed(9));
    assert(key >= 0.01 && place.calls < 20, `${place.calls} calls, $${key}`);
  });
}

Deno.test("budgets: concurrent calls exceed a key's budget by at most one call's maximum, through the gateway and the agent", async () => {
  for (const model of ["m", "agent"]) {
    await using place = await Spending.start(0.006);
    const statuses = await Promise.all(Array.from({ length: 50 }, async () => {
      const response = await place.post("/v1/chat/completions", { ...HELLO, model });
      await response.text();
      return response.status;
    }));
    const { key } = await place.spent();
    // A call costs over half a cent: the second exceeds the budget, and no other one is made.
    assertEquals([place.calls, key < 0.02], [2, true], `${model}: ${key}`);
    assertEquals(statuses.filter((status) => status === 402).length, model === "m" ? 48 : 0);
  }
});
