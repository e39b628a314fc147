import { assert, assertEquals } from "@std/assert";
import type { SessionEvent } from "@tare/server";
import { jsonPost } from "../../crash/json_post.ts";
import { readEvents } from "../../crash/read_events.ts";
import { Audit } from "./audit.ts";
import { OWNER_KEY } from "./client.ts";
import { Cluster } from "./cluster.ts";
import { Nginx } from "./nginx.ts";
import { startPostgres } from "./postgres.ts";
import { needs, NGINX } from "../../needs.ts";

const postgres = await startPostgres();

function backend(
  name: string,
  answer: (request: Request) => Response | Promise<Response> = () => new Response(name),
): Deno.HttpServer<Deno.NetAddr> {
  return Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, answer);
}

const urlOf = ({ addr }: Deno.HttpServer<Deno.NetAddr>) => `http://127.0.0.1:${addr.port}`;

const ids = Array.from({ length: 200 }, (_, number) => `0b9b5f0e-${number}`);

const share = (names: readonly string[], name: string) =>
  names.filter((one) => one === name).length / names.length;

async function whoAnswers(
  nginx: Nginx,
  requests: readonly (readonly [path: string, headers?: Record<string, string>])[],
): Promise<string[]> {
  const names: string[] = [];
  for (const [path, headers = {}] of requests) {
    names.push(await (await nginx.fetch(path, { headers })).text());
  }
  return names;
}

Deno.test(
  needs(
    NGINX,
    "nginx: all requests of a session go to one server, and only those of a removed server move",
  ),
  async () => {
    const names = ["a", "b", "c", "d"];
    const servers = names.map((name) => backend(name));
    const urls = servers.map(urlOf);
    const turns = ids.map((id) => [`/tare/v1/sessions/${id}/turns`] as const);
    const others = ids.map((id, at) =>
      [`/tare/v1/sessions/${id}${["", "/events?after=3", "/approvals/call"][at % 3]}`] as const
    );
    let before: string[];
    {
      await using nginx = await Nginx.start(urls);
      before = await whoAnswers(nginx, turns);
      assertEquals(await whoAnswers(nginx, others), before);
      for (const name of names) assert(share(before, name) > 0.12, `${name} has ${share(before, name)}`);
      await servers[1]!.shutdown();
      const after = await whoAnswers(nginx, turns);
      assertEquals(after.filter((name, at) => name !== before[at] && before[at] !== "b"), []);
      const moved = after.filter((_, at) => before[at] === "b");
      assertEquals([...new Set(moved)].sort(), ["a", "c", "d"]);
    }
    {
      // Removing it from the configuration has the same effect.
      await using nginx = await Nginx.start(urls.filter((_, at) => at !== 1));
      const after = await whoAnswers(nginx, turns);
      assertEquals(after.filter((name, at) => name !== before[at] && before[at] !== "b"), []);
    }
    for (const server of servers) await server.shutdown();
  },
);

Deno.test(
  needs(
    NGINX,
    "nginx: a gateway conversation goes to one server, by its agent's id for it, otherwise by its key",
  ),
  async () => {
    const servers = ["a", "b", "c", "d"].map((name) => backend(name));
    await using nginx = await Nginx.start(servers.map(urlOf));
    const paths = ["/v1/messages", "/v1/messages/count_tokens", "/v1/responses", "/v1/chat/completions"];
    const headers = ["x-session-id", "x-claude-code-session-id", "session-id"];
    const first = await whoAnswers(nginx, ids.map((id) => ["/v1/messages", { "x-session-id": id }]));
    assertEquals([...new Set(first)].sort(), ["a", "b", "c", "d"]);
    // For every header and key.
    for (const [at, header] of headers.entries()) {
      const requests = ids.map((id) =>
        [paths[at + 1]!, { [header]: id, authorization: `Bearer ${at}` }] as const
      );
      assertEquals(await whoAnswers(nginx, requests), first, header);
    }
    for (const header of ["authorization", "x-api-key", "x-tare-key"]) {
      const requests = ids.slice(0, 40).map((id) => ["/v1/messages", { [header]: id }] as const);
      const by = await whoAnswers(nginx, requests);
      assertEquals(await whoAnswers(nginx, requests), by, header);
      assertEquals([...new Set(by)].sort(), ["a", "b", "c", "d"], header);
    }
    // Requests without a conversation are distributed, also those of one client.
    const spread = await whoAnswers(
      nginx,
      ids.map((_, at) => [["/tare/v1/sessions", "/tare/v1/sessions/import", "/"][at % 3]!]),
    );
    assertEquals([...new Set(spread)].sort(), ["a", "b", "c", "d"]);
    for (const server of servers) await server.shutdown();
  },
);

Deno.test(
  needs(NGINX, "nginx: streams are forwarded piece by piece, and large bodies are accepted"),
  async () => {
    const next = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const server = backend("a", async (request) => {
      if (request.method === "POST") {
        let bytes = 0;
        for await (const piece of request.body ?? []) {
          // Before the body has ended: it isn't buffered.
          if (bytes === 0) next[1]!.resolve();
          bytes += piece.length;
        }
        return new Response(String(bytes));
      }
      const body = new ReadableStream<Uint8Array>({
        async start(controller) {
          controller.enqueue(new TextEncoder().encode("data: 1\n\n"));
          await next[0]!.promise;
          controller.enqueue(new TextEncoder().encode("data: 2\n\n"));
          controller.close();
        },
      });
      return new Response(body, { headers: { "content-type": "text/event-stream" } });
    });
    await using nginx = await Nginx.start([urlOf(server)]);
    const events = await nginx.fetch("/tare/v1/sessions/one/events");
    const reader = events.body!.pipeThrough(new TextDecoderStream()).getReader();
    assertEquals((await reader.read()).value, "data: 1\n\n");
    next[0]!.resolve();
    assertEquals([(await reader.read()).value, (await reader.read()).done], ["data: 2\n\n", true]);
    const piece = new Uint8Array(2 ** 20);
    const pieces = new ReadableStream<Uint8Array>({
      async start(controller) {
        controller.enqueue(piece);
        await next[1]!.promise;
        for (let count = 1; count < 20; count++) controller.enqueue(piece);
        controller.close();
      },
    });
    const answer = await nginx.fetch("/v1/messages", { method: "POST", body: pieces });
    assertEquals(await answer.text(), String(20 * piece.length));
    await server.shutdown();
  },
);

Deno.test(
  needs(NGINX, "nginx: a request is sent to another server only if it certainly had no effect"),
  async () => {
    const requests: string[] = [];
    const [dead, ending, well] = [
      backend("dead"),
      backend("ending", ({ method }) => {
        requests.push(method);
        return new Response("ends", { status: 503 });
      }),
      backend("well"),
    ];
    await dead.shutdown();
    {
      await using nginx = await Nginx.start([urlOf(dead), urlOf(well)]);
      const answers = [];
      for (const id of ids.slice(0, 20)) {
        answers.push(
          await (await nginx.fetch(`/tare/v1/sessions/${id}/turns`, { method: "POST", body: "{}" })).text(),
        );
      }
      assertEquals([...new Set(answers)], ["well"]);
    }
    {
      // The request may have had its effect: the client receives the error, unless it only reads.
      await using nginx = await Nginx.start([urlOf(ending), urlOf(well)]);
      const heard: string[] = [];
      for (const id of ids.slice(0, 20)) {
        for (const method of ["POST", "GET"]) {
          const answer = await nginx.fetch(`/tare/v1/sessions/${id}/turns`, { method });
          heard.push(`${method} ${await answer.text()}`);
        }
      }
      const [posts, gets] = ["POST", "GET"].map((method) => heard.filter((line) => line.startsWith(method)));
      assertEquals([...new Set(posts)].sort(), ["POST ends", "POST well"]);
      assertEquals([...new Set(gets)], ["GET well"]);
      assertEquals(
        requests.filter((method) => method === "POST").length,
        share(posts!, "POST ends") * posts!.length,
      );
    }
    for (const server of [ending, well]) await server.shutdown();
  },
);

Deno.test(
  needs(NGINX, "nginx: turns of a session run on one server, and elsewhere once that is gone"),
  async () => {
    await using cluster = await Cluster.start(postgres, { seed: 3 });
    await Audit.install(cluster);
    await using nginx = await Nginx.start(cluster.urls);
    const headers = { "x-tare-key": OWNER_KEY, "content-type": "application/json" };
    const post = (path: string, body: unknown) => nginx.fetch(path, { ...jsonPost(body), headers });
    const ids: string[] = [];
    for (let count = 0; count < 6; count++) {
      const { id } = await (await post("/tare/v1/sessions", { instructions: `${count}`, tools: [] })).json();
      ids.push(id);
    }
    const play = async (id: string) => {
      let end: string | undefined;
      for await (
        const { data } of readEvents(await post(`/tare/v1/sessions/${id}/turns`, { input: "Go on." }))
      ) {
        const event: SessionEvent = JSON.parse(data);
        if (event.type === "turn_end") end = event.reason;
      }
      return end;
    };
    const writers = async () => {
      const rows = await cluster.query<{ session: string; writer: string }>(
        "SELECT session, writer FROM audit.writes WHERE starts ORDER BY position",
      );
      return ids.map((id) => rows.filter(({ session }) => session === id).map(({ writer }) => writer));
    };
    for (let turn = 0; turn < 3; turn++) {
      for (const id of ids) assertEquals(await play(id), "completed");
    }
    const before = await writers();
    assertEquals(before.map((each) => [each.length, new Set(each).size]), ids.map(() => [3, 1]));
    const [[gone = ""] = []] = before;
    await cluster.endMember(cluster.members.find(({ user }) => user === gone)!, "SIGTERM");
    for (const id of ids) assertEquals(await play(id), "completed");
    const after = (await writers()).map((each) => each.at(-1)!);
    assertEquals(after.includes(gone), false);
    assertEquals(after.filter((writer, at) => before[at]![0] !== gone && writer !== before[at]![0]), []);
  },
);
