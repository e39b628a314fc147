import { assertEquals } from "@std/assert";
import {
  agent,
  call,
  error,
  events,
  newSession,
  request,
  scriptedModel,
  silentModel,
  turn,
} from "./fixture_test.ts";

Deno.test("turnRoutes() refuses a turn while as many run as may, and takes the next one when a slot is free", async () => {
  const silent = silentModel();
  const handler = agent(silent.model, {
    maxRunningTurns: 1,
    model: (name) => name === "quick" ? scriptedModel([{ content: "a" }]) : silent.model,
  });
  const [one, two] = [await newSession(handler), await newSession(handler, { model: "quick" })];
  const running = turn(handler, one, "q");
  await silent.asked;
  const answer = await call(handler, "POST", `${two}/turns`, { input: "q" });
  assertEquals([answer.status, answer.headers.get("retry-after")], [429, "5"]);
  assertEquals(
    { status: answer.status, body: answer.body },
    error(
      429,
      "too_many_turns",
      "Cannot start a turn: 1 run at the moment, and no more may. Try again when one has ended.",
    ),
  );
  await call(handler, "POST", `${one}/cancel`);
  await running;
  for (let times = 0; times < 2; times++) {
    assertEquals((await turn(handler, two, "q")).at(-1)!.event.type, "turn_end");
  }
});

Deno.test("turnRoutes() gives the slot back when a turn can't be started", async () => {
  let isBroken = true;
  const model = scriptedModel([{ content: "a" }]);
  const handler = agent(model, {
    maxRunningTurns: 1,
    model() {
      if (isBroken) throw new Error("no such model");
      return model;
    },
  });
  const session = await newSession(handler);
  assertEquals((await call(handler, "POST", `${session}/turns`, { input: "q" })).status, 500);
  isBroken = false;
  assertEquals((await turn(handler, session, "q")).at(-1)!.event.type, "turn_end");
});

Deno.test("turnRoutes() ends a turn's stream with the turn, and keeps it alive while nothing happens", async () => {
  const { model, asked } = silentModel();
  const beats: (() => void)[] = [];
  const handler = agent(model, {
    heartbeat: { intervalMs: 1, after: (_ms, beat) => (beats.push(beat), () => {}) },
  });
  const session = await newSession(handler);
  const response = await handler.fetch(request("POST", `${session}/turns`, { input: "q" }));
  const chunks = response.body!.getReader();
  const read = async () => new TextDecoder().decode((await chunks.read()).value);
  assertEquals([await read(), await read()].map((text) => JSON.parse(text.split("data: ")[1]!).type), [
    "turn_start",
    "step_start",
  ]);
  await asked;
  const chunk = read();
  await Promise.resolve();
  beats.at(-1)!();
  assertEquals(await chunk, ": heartbeat\n\n");
  await call(handler, "POST", `${session}/cancel`);
  assertEquals(JSON.parse((await read()).split("data: ")[1]!).type, "turn_end");
  assertEquals((await chunks.read()).done, true);
});

Deno.test("turnRoutes() streams the events of a session that runs to those who watch it, and leaves nothing behind them", async () => {
  const { model, asked } = silentModel();
  const handler = agent(model);
  const session = await newSession(handler);
  const running = turn(handler, session, "q");
  await asked;
  const watched = events(await handler.fetch(request("GET", `${session}/events`)));
  const left = (await handler.fetch(request("GET", `${session}/events`))).body!.getReader();
  await left.read();
  await left.cancel();
  await call(handler, "POST", `${session}/cancel`);
  assertEquals(await watched, await running);
});
