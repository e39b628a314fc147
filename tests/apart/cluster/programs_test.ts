import { assert, assertEquals } from "@std/assert";
import type { SessionEvent } from "@tare/server";
import { jsonPost } from "../../crash/json_post.ts";
import { Audit } from "./audit.ts";
import { get, postOnce, send, until } from "./client.ts";
import { Cluster, type Member } from "./cluster.ts";
import { PROGRAMMING, readRuns } from "./cluster_model.ts";
import { startPostgres } from "./postgres.ts";

const postgres = await startPostgres();

const SETTINGS = {
  instructions: `${PROGRAMMING}: a program does the work.`,
  tools: ["shell", "write_file", "run_program"],
  approvalRules: [{ tool: "write_file", decision: "ask" }],
};

Deno.test("code mode: a program waits for its approvals over restarts, resumes where they are given, and repeats no call", async () => {
  await using cluster = await Cluster.start(postgres, { seed: 3, servers: 2 });
  const audit = await Audit.install(cluster);
  await cluster.restart();
  const [first, second] = cluster.members as [Member, Member];
  const { body: { id } } = await postOnce(`${first.program!.url}/tare/v1/sessions`, SETTINGS);
  const at = ({ program }: Member) => `${program!.url}/tare/v1/sessions/${id}`;
  const request = (member: Member, path: string) =>
    until(`a question about ${path}`, async () => {
      const { status, approvals } = (await get(at(member))).body;
      const open = approvals.filter((one: { arguments: string }) => one.arguments.includes(path));
      return status === "idle" && open.length > 0 ? open[0] : undefined;
    });
  const allow = async (member: Member, path: string) => {
    const { id } = await request(member, path);
    const answer = await send(`${at(member)}/approvals/${id}`, jsonPost({ decision: "allow" }));
    assertEquals(answer.status, 200, await answer.text());
    return id;
  };

  await (await send(`${at(first)}/turns`, jsonPost({ input: "Go." }))).text();
  const left = await request(second, "left.txt");
  await cluster.endMember(first, "SIGKILL");
  await cluster.endMember(second, "SIGTERM");
  await cluster.startMember(second);
  assertEquals(await allow(second, "left.txt"), left.id);
  await allow(second, "right.txt");
  await request(second, "last.txt");
  await cluster.startMember(first);
  await allow(first, "last.txt");
  // It is killed in the middle of a command, whose outcome is unknown.
  await until("a third command", async () => readRuns(await cluster.log()).length > 2 || undefined);
  await cluster.endMember(first, "SIGKILL");
  await cluster.letGo();
  await until("the end of the turn", async () => {
    const last = JSON.parse((await audit.eventsOf(id)).at(-1) ?? "{}");
    return last.type === "turn_end" && last.reason === "completed" || undefined;
  });
  assertEquals((await get(at(second))).body.turns, 1);

  const events = (await audit.eventsOf(id)).map((json): SessionEvent => JSON.parse(json));
  const results = events.filter((event) => event.type === "tool_result");
  assertEquals(
    results.filter(({ parent }) => parent !== undefined).map(({ name, error }) => `${name} ${error}`),
    [
      ...["shell false", "write_file false", "write_file false", "shell false", "write_file false"],
      "shell true",
    ],
  );
  const whole = results.find(({ parent }) => parent === undefined);
  assertEquals(
    whole?.content,
    "left.txt right.txt last.txt unknown\n\n[Written: left.txt, right.txt, last.txt]",
  );
  const end = events.at(-1);
  assert(end?.type === "turn_end");
  assertEquals([end.reason, end.text], ["completed", "The program is done."]);
  const runs = readRuns(await cluster.log());
  assertEquals(runs.map(({ token }) => token), ["program-1", "program-2", "program-3"]);
  assertEquals(new Set(runs.map(({ pid }) => pid)).size, 3, "each of them is another server's");
  await audit.check([id]);
});
