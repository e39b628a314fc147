import { assert, assertEquals } from "@std/assert";
import { ownerOf } from "./owner.ts";
import { jsonPost } from "./json_post.ts";
import type { RecordingProvider } from "../recording_provider.ts";

const BATCH = 4;

const RETAINED = 8;

const EXCHANGES = 5;

interface Import {
  readonly name: string;
  readonly key: string;
  readonly body: string;
  isAcknowledged: boolean;
}

interface Listed {
  readonly id: string;
  readonly instructions: string;
}

/** Clients that import and delete sessions and use the gateway, and check the acknowledgements. */
export class Bystander {
  readonly #provider: RecordingProvider;
  readonly #data: string;
  readonly #imports: Import[] = [];
  readonly #deleted = new Map<string, boolean>();
  #made = 0;
  readonly acknowledged = { imports: 0, deletions: 0, exchanges: 0 };

  constructor(provider: RecordingProvider, data: string) {
    this.#provider = provider;
    this.#data = data;
  }

  async work(url: string): Promise<void> {
    await Promise.all([this.#transfer(url), this.#talk(url)]);
  }

  /** Checks that acknowledged imports are complete, others complete or absent, and deleted sessions gone. */
  async check(url: string): Promise<void> {
    const last = this.#imports.at(-1);
    if (last && !last.isAcknowledged) await this.#sendAgain(url, last);
    const listed = await this.#listed(url);
    for (const { id } of listed) assert(this.#deleted.get(id) !== true, `session ${id} is back`);
    for (const one of this.#imports) {
      const names = listed.filter(({ instructions }) => instructions.startsWith(`${one.name},`))
        .map(({ instructions }) => instructions);
      assertEquals(new Set(names).size, names.length, `${one.name} is there twice`);
      if (this.#isThinned(one)) continue;
      assert([0, BATCH].includes(names.length), `${names.length} sessions of ${one.name}`);
      if (one.isAcknowledged) assertEquals(names.length, BATCH, `${one.name} was acknowledged`);
    }
    const [newest] = listed;
    if (newest) await this.#assertExported(url, newest);
  }

  #isThinned(one: Import): boolean {
    return this.#imports.indexOf(one) < this.#imports.length - Math.floor(RETAINED / BATCH);
  }

  async #transfer(url: string): Promise<void> {
    for (;;) {
      const name = `Import ${++this.#made}`;
      const body = Array.from({ length: BATCH }, (_, index) => linesOf(`${name}, session ${index}`)).join("");
      const one: Import = { name, key: crypto.randomUUID(), body, isAcknowledged: false };
      this.#imports.push(one);
      const response = await this.#send(url, one);
      assertEquals([response.status, (await response.json()).sessions?.length], [201, BATCH]);
      one.isAcknowledged = true;
      this.acknowledged.imports++;
      await Promise.all((await this.#listed(url)).slice(RETAINED).map(({ id }) => this.#delete(url, id)));
    }
  }

  async #delete(url: string, id: string): Promise<void> {
    this.#deleted.set(id, false);
    const { status } = await fetch(`${url}/tare/v1/sessions/${id}`, { method: "DELETE" });
    assertEquals(status, 204);
    this.#deleted.set(id, true);
    this.acknowledged.deletions++;
  }

  async #sendAgain(url: string, one: Import): Promise<void> {
    const response = await this.#send(url, one);
    const { sessions } = await response.json();
    assertEquals([response.status, sessions.length], [201, BATCH]);
    one.isAcknowledged = true;
  }

  #send(url: string, { key, body }: Import): Promise<Response> {
    const headers = { "content-type": "application/x-ndjson", "idempotency-key": key };
    return fetch(`${url}/tare/v1/sessions/import`, { method: "POST", headers, body });
  }

  async #listed(url: string): Promise<Listed[]> {
    const { sessions } =
      await (await fetch(`${url}/tare/v1/sessions?kind=agent&limit=1000`, { headers: ownerOf(this.#data) }))
        .json();
    return sessions.filter(({ instructions }: Listed) => instructions.startsWith("Import "));
  }

  async #assertExported(url: string, { id, instructions }: Listed): Promise<void> {
    const lines = await (await fetch(`${url}/tare/v1/sessions/${id}/export`)).text();
    assertEquals(
      lines.trimEnd().split("\n").map((line) => JSON.parse(line)),
      JSON.parse(linesOf(instructions)).messages,
    );
  }

  async #talk(url: string): Promise<void> {
    for (;;) {
      const first = `Gateway ${++this.#made}`;
      const messages: unknown[] = [{ role: "user", content: first }];
      for (let exchange = 0; exchange < EXCHANGES; exchange++) {
        const response = await fetch(
          `${url}/v1/chat/completions`,
          jsonPost({ model: "simulated", messages }),
        );
        const { choices } = await response.json();
        assertEquals(response.status, 200);
        const sent = this.#provider.requestsOf(first).at(-1);
        assertEquals(sent?.messages, messages.map((message) => JSON.stringify(message)));
        const { content } = choices[0].message;
        messages.push({ role: "assistant", content }, { role: "user", content: `And ${exchange}?` });
        this.acknowledged.exchanges++;
      }
    }
  }
}

function linesOf(instructions: string): string {
  const messages = [
    { role: "system", content: instructions },
    { role: "user", content: `What is ${instructions}?` },
    { role: "assistant", content: "A session. ".repeat(200) },
  ];
  return `${JSON.stringify({ messages })}\n`;
}
