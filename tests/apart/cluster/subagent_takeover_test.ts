import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { SessionEvent } from "@tare/server";
import { jsonPost } from "../../crash/json_post.ts";
import { readEvents } from "../../crash/read_events.ts";
import { Audit } from "./audit.ts";
import { get, postOnce, send, until } from "./client.ts";
import { Cluster } from "./cluster.ts";
import { DELEGATING, readRuns, TASK } from "./cluster_model.ts";
import { startPostgres } from "./postgres.ts";
import { extendsRequest } from "./provider.ts";

const postgres = await startPostgres();

const INSTRUCTIONS = `${DELEGATING}: others do the work.`;

async function play<Type extends SessionEvent["type"]>(
  at: string,
  { until: type, ...request }: { readonly until: Type } & Record<string, unknown>,
): Promise<Extract<SessionEvent, { readonly type: Type }>> {
  for await (const { data } of readEvents(await send(`${at}/turns`, jsonPost(request)))) {
    const event: SessionEvent = JSON.parse(data);
    if (event.type === type) return event as Extract<SessionEvent, { readonly type: Type }>;
  }
  throw new Error(`Cannot play: the turn had no ${type}.`);
}

Deno.test("takeover: another server resumes the turn of a killed server, and ends its subagent's, which can be continued", async () => {
  await using cluster = await Cluster.start(postgres, { seed: 2, servers: 2 });
  const audit = await Audit.install(cluster);
  await cluster.restart();
  const [killed, other] = cluster.members;
  const settings = { instructions: INSTRUCTIONS, tools: ["shell", "delegate"] };
  const { body: { id } } = await postOnce(`${killed!.program!.url}/tare/v1/sessions`, settings);
  const request = { input: "Go.", until: "subagent_started" } as const;
  const { id: call, session: subagent } = await play(
    `${killed!.program!.url}/tare/v1/sessions/${id}`,
    request,
  );
  const stored = async (session: string) =>
    (await audit.eventsOf(session)).map((json): SessionEvent => JSON.parse(json));
  await until("two commands of the helper's", async () => {
    return (await stored(subagent)).filter(({ type }) => type === "tool_result").length === 2 || undefined;
  });
  await cluster.endMember(killed!, "SIGKILL");
  await cluster.letGo();

  const at = (session: string) => `${other!.program!.url}/tare/v1/sessions/${session}`;
  for (const session of [id, subagent]) {
    await until(`the end of the turn of ${session}`, async () => {
      return (await get(at(session))).body.status === "idle" || undefined;
    });
  }
  const events = await stored(id);
  const resumed = events.findIndex(({ type }) => type === "turn_resumed");
  const [result, end] = [events[resumed - 1], events.at(-1)];
  assert(result?.type === "tool_result" && end?.type === "turn_end");
  assertEquals([result.id, result.error, end.reason, end.text], [
    call,
    true,
    "completed",
    "The helper is done.",
  ]);
  assertStringIncludes(result.content, subagent);
  const subagentEvent = (await stored(subagent)).at(-1);
  assert(subagentEvent?.type === "turn_end" && subagentEvent.reason === "interrupted");
  const { reason, text } = await play(at(subagent), { continue: true, until: "turn_end" });
  assertEquals([reason, text], ["completed", "It is written."]);

  const requests = await cluster.provider.requestsOf(INSTRUCTIONS);
  const isSubagentRequest = ({ messages }: typeof requests[number]) =>
    messages.some((text) => text.includes('"role":"user"') && text.includes(TASK));
  const [first, ...more] = requests.filter((request) => !isSubagentRequest(request));
  assertEquals(more.map((request) => extendsRequest(first!, request)), [true]);
  const own = requests.filter(isSubagentRequest);
  assertEquals(own.map((request, at) => extendsRequest(own[at - 1] ?? first!, request)), own.map(() => true));

  const runs = readRuns(await cluster.log());
  assertEquals(new Set(runs.map(({ token }) => token)).size, runs.length, "a call ran twice");
  assertEquals(new Set(runs.map(({ pid }) => pid)).size, 2, "one server ran all");
  await audit.check([id, subagent]);
});
