import { assertEquals } from "@std/assert";
import type { Model } from "@tare/messages";
import { sharedMemory } from "../../../tests/shared_memory.ts";
import { agent, call, newSession, scriptedModel, turn } from "../fixture_test.ts";
import { approvalOf, asksFor, follow, outline, readTurn, recorder, toolCall } from "./fixture_test.ts";

function servers(model: Model, write: ReturnType<typeof recorder>) {
  const memory = sharedMemory();
  let nowMs = 0;
  const open = () => {
    const opening = memory.open();
    const timers = new Set<{ readonly ms: number; readonly work: () => void }>();
    const errors: unknown[] = [];
    const after = (ms: number, work: () => void) => {
      const timer = { ms, work };
      timers.add(timer);
      return () => timers.delete(timer);
    };
    const handler = agent(model, {
      tools: [write.tool],
      store: opening.store,
      approvals: { answerWithinMs: 1_000 },
      after,
      now: () => nowMs,
      onError: (error) => errors.push(error),
    });
    return { handler, opening, timers, errors };
  };
  return { memory, a: open(), b: open(), at: (ms: number) => nowMs = ms };
}

const script = () => scriptedModel([{ tool_calls: [toolCall("a", "write")] }, { content: "Done." }]);

Deno.test("several servers: an approval is answered on another server, which continues, and all followers see it", async () => {
  const write = recorder("write");
  const { a, b } = servers(script(), write);
  const session = await newSession(a.handler);
  const { id: last } = (await turn(a.handler, session, "Go")).at(-1)!;
  const onA = readTurn(a.handler, session, last);
  assertEquals(await asksFor(b.handler, session), ["{}"]);
  const path = await approvalOf(b.handler, session, "a");
  const answered = await call(b.handler, "POST", path, { decision: "allow" });
  assertEquals(answered.status, 200);
  const seen = outline(await onA);
  assertEquals([seen[0], seen[1], seen.at(-1)], [
    "approval_answered a allow user",
    "turn_start",
    "turn_end completed",
  ]);
  assertEquals(write.ran, [{}]);
  const late = await call(a.handler, "POST", path, { decision: "deny" });
  assertEquals(late.status, 404);
  assertEquals([a.errors, b.errors, a.timers.size, b.timers.size], [[], [], 0, 0]);
});

Deno.test("several servers: a dead server's approval is denied by another at its deadline", async () => {
  const write = recorder("write");
  const { memory, a, b, at } = servers(script(), write);
  const session = await newSession(a.handler);
  const { id: last } = (await turn(a.handler, session, "Go")).at(-1)!;
  a.opening.kill();
  at(400);
  memory.pass(10_000);
  const onB = follow(b.handler, session, last);
  while (b.timers.size === 0) await b.opening.store.lastEvent(session.split("/").at(-1)!);
  const [timer] = b.timers;
  assertEquals(timer!.ms, 600);
  timer!.work();
  const seen = outline(await onB);
  assertEquals([seen[0], seen.at(-1)], ["approval_answered a deny time", "turn_end completed"]);
  assertEquals([write.ran, b.errors], [[], []]);
});

Deno.test("several servers: an approval's deadline is the same on all servers, and it is denied once", async () => {
  const write = recorder("write");
  const { a, b } = servers(script(), write);
  const session = await newSession(a.handler);
  const { id: last } = (await turn(a.handler, session, "Go")).at(-1)!;
  await b.handler.attend();
  const onA = readTurn(a.handler, session, last);
  for (const { timers } of [a, b]) for (const { work } of [...timers]) work();
  const seen = outline(await onA);
  assertEquals(seen.filter((line) => line.startsWith("approval_answered")), [
    "approval_answered a deny time",
  ]);
  assertEquals([seen.at(-1), write.ran, a.errors, b.errors], ["turn_end completed", [], [], []]);
});
