import { assert, assertEquals } from "@std/assert";
import type { Message } from "@tare/messages";
import { get, pause, tellOnce } from "./client.ts";
import type { Cluster } from "./cluster.ts";

const MARK = "Imported and perhaps deleted";

const RETAINED = 12;

/** Conflicts to wait for after a request was sent twice. */
const PASSING = ["idempotency_key_in_use"];

/** Permanent conflict after a server ended during a request, whose outcome is unknown. */
const INTERRUPTED = "idempotency_key_interrupted";

/** Client that imports and deletes sessions during faults, and checks the result. */
export class Importer {
  readonly #cluster: Cluster;
  readonly #random: () => number;
  readonly #stored = new Map<string, readonly Message[]>();
  readonly #deleted: string[] = [];
  #made = 0;

  constructor(cluster: Cluster, random: () => number) {
    this.#cluster = cluster;
    this.#random = random;
  }

  async work(isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      if (this.#random() < 1 - this.#stored.size / RETAINED) await this.#import();
      else await this.#delete();
      await pause(50);
    }
  }

  async #import(): Promise<void> {
    const sessions = Array.from({ length: 1 + Math.floor(3 * this.#random()) }, (): Message[] => [
      { role: "system", content: `${MARK}: ${++this.#made}.` },
      { role: "user", content: `What is ${this.#made}?` },
      { role: "assistant", content: "A number. ".repeat(1 + Math.floor(200 * this.#random())) },
    ]);
    const { status, body } = await tellOnce(`${this.#cluster.balancer.url}/tare/v1/sessions/import`, {
      method: "POST",
      headers: { "content-type": "application/x-ndjson" },
      body: sessions.map((messages) => `${JSON.stringify({ messages })}\n`).join(""),
    }, PASSING);
    assertEquals([status, body.sessions?.length], [201, sessions.length], JSON.stringify(body));
    for (const [index, { id }] of body.sessions.entries()) this.#stored.set(id, sessions[index]!);
  }

  async #delete(): Promise<void> {
    const ids = [...this.#stored.keys()];
    const id = ids[Math.floor(ids.length * this.#random())]!;
    const at = `${this.#cluster.balancer.url}/tare/v1/sessions/${id}`;
    for (;;) {
      const { status, body } = await tellOnce(at, { method: "DELETE" }, PASSING);
      // An earlier attempt may have deleted it.
      if (status === 204 || status === 404) break;
      assertEquals([status, body.error.code], [409, INTERRUPTED], JSON.stringify(body));
    }
    this.#stored.delete(id);
    this.#deleted.push(id);
    assertEquals((await get(at)).status, 404);
  }

  /** Checks that each server has every import unchanged, once, and no deleted session. */
  async check(): Promise<void> {
    const stored = await this.#cluster.query<{ readonly id: string }>(
      "SELECT id FROM tare.sessions WHERE json LIKE $1 ORDER BY id",
      [`%${MARK}%`],
    );
    assertEquals(
      stored.map(({ id }) => id),
      [...this.#stored.keys()].sort(),
      "not the sessions that there are",
    );
    await Promise.all(this.#cluster.urls.map(async (url) => {
      for (const [id, messages] of this.#stored) {
        const { status, body } = await get(`${url}/tare/v1/sessions/${id}`);
        assertEquals([status, body.messages], [200, messages]);
      }
      for (const id of this.#deleted) assertEquals((await get(`${url}/tare/v1/sessions/${id}`)).status, 404);
    }));
    this.#deleted.splice(0);
  }

  assertWorked(): void {
    assert(
      this.#made > this.#stored.size && this.#stored.size > 0,
      `${this.#made} made, ${this.#stored.size} retained`,
    );
  }
}
