import { assertEquals } from "@std/assert";
import { get, postOnce, until } from "./client.ts";
import type { Cluster } from "./cluster.ts";

/**
 * Time until another server takes over the claimed deliveries of a killed one, with slack, in milliseconds.
 */
const CLAIMED_MS = 60_000;

type Report = `${string} ${number}`;

/** Receiver of all turn ends. It refuses the first attempt of every third delivery. */
export class WebhookReceiver implements AsyncDisposable {
  readonly #reports = new Map<string, Set<Report>>();
  readonly #refused = new Set<string>();
  readonly #server: Deno.HttpServer<Deno.NetAddr>;

  constructor() {
    this.#server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
      const id = request.headers.get("webhook-id")!;
      const { data: { session, event } } = await request.json();
      const known = this.#reports.get(id) ?? new Set();
      this.#reports.set(id, known.add(`${session.id} ${event}`));
      const isRefused = known.size === 1 && this.#reports.size % 3 === 0 && !this.#refused.has(id);
      this.#refused.add(id);
      return new Response(null, { status: isRefused ? 503 : 204 });
    });
  }

  get size(): number {
    return this.#reports.size;
  }

  async begin({ balancer, urls }: Cluster): Promise<void> {
    const url = `http://127.0.0.1:${this.#server.addr.port}/`;
    const { status } = await postOnce(`${balancer.url}/tare/v1/webhooks`, { url, types: ["turn.ended"] });
    assertEquals(status, 201);
    for (const url of urls) await get(`${url}/tare/v1/webhooks`);
  }

  /** Waits for all deliveries, and checks that each stored end was reported under one id. */
  async check(cluster: Cluster): Promise<void> {
    await until("the last delivery", async () => {
      const [row] = await cluster.query<{ count: number }>(
        "SELECT count(*)::integer AS count FROM tare.deliveries WHERE due_at_ms IS NOT NULL",
      );
      return row!.count === 0 || undefined;
    }, CLAIMED_MS);
    const rows = await cluster.query<{ id: string; first: number; json: string }>(
      `SELECT id, first::integer, e.json FROM tare.events e JOIN tare.sessions s ON s.key = e.session
       WHERE s.json::json -> 'parent' IS NULL AND 'turn_end' = ANY (types)`,
    );
    const ended = rows.flatMap(({ id, first, json }) =>
      (JSON.parse(json) as { type: string }[]).flatMap(({ type }, at): Report[] =>
        type === "turn_end" ? [`${id} ${first + at}`] : []
      )
    );
    const reports = [...this.#reports.values()].map((one) => [...one]);
    assertEquals(reports.map(({ length }) => length), reports.map(() => 1), "one id for two ends");
    assertEquals(reports.flat().sort(), ended.sort());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#server.shutdown();
  }
}
