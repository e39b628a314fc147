import { assertEquals } from "@std/assert";
import { until } from "./client.ts";
import { LoadBalancer } from "./load_balancer.ts";

/** Starts a server that answers `/health`, and everything else by `answer`. */
function backend(answer: (request: Request) => Response | Promise<Response>): Deno.HttpServer<Deno.NetAddr> {
  return Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    (request) => new URL(request.url).pathname === "/health" ? new Response() : answer(request),
  );
}

const PATIENT_MS = 60_000;

const urlOf = ({ addr }: Deno.HttpServer<Deno.NetAddr>) => `http://127.0.0.1:${addr.port}`;

async function ask(url: string, init?: RequestInit): Promise<string> {
  return await (await fetch(url, init)).text();
}

Deno.test("LoadBalancer: requests go to the servers in turn, and to none that is gone", async () => {
  await using balancer = await LoadBalancer.start(PATIENT_MS);
  const servers = ["a", "b"].map((name) => backend(() => new Response(name)));
  for (const [place, server] of servers.entries()) balancer.put(place, urlOf(server));
  const answers = async () => [await ask(balancer.url), await ask(balancer.url)].sort();
  assertEquals(await answers(), ["a", "b"]);
  await servers[0]!.shutdown();
  assertEquals(await answers(), ["b", "b"]);
  await servers[1]!.shutdown();
  assertEquals(await ask(balancer.url), "No server is there.");
  const third = backend(() => new Response("c"));
  balancer.put(0, urlOf(third));
  assertEquals(await answers(), ["c", "c"]);
  await third.shutdown();
});

Deno.test("LoadBalancer: requests on a silent server are aborted, and only reads are sent again", async () => {
  await using balancer = await LoadBalancer.start(3000);
  const requests: string[] = [];
  let isSilent = false;
  let isWell = true;
  const silent = Promise.withResolvers<Response>();
  const first = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, ({ method, url }) => {
    if (url.endsWith("/health")) return isWell ? new Response() : silent.promise;
    if (!isSilent) return new Response("a");
    requests.push(method);
    return silent.promise;
  });
  balancer.put(0, urlOf(first));
  assertEquals(await ask(balancer.url), "a");
  isSilent = true;
  const read = ask(balancer.url);
  const posted = fetch(balancer.url, { method: "POST", body: "once" });
  await until("both are there", () => Promise.resolve(requests.length === 2 || undefined));
  const second = backend(({ method }) => {
    requests.push(`${method} again`);
    return new Response("b");
  });
  balancer.put(1, urlOf(second));
  isWell = false;
  const response = await posted;
  await response.body?.cancel();
  assertEquals([response.status, await read], [502, "b"]);
  assertEquals(requests.toSorted(), ["GET", "GET again", "POST"]);
  silent.resolve(new Response());
  await first.shutdown();
  await second.shutdown();
});
