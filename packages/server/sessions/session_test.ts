import { assertEquals } from "@std/assert";
import { EMPTY_LEDGER } from "@tare/loop";
import type { SessionInfo } from "@tare/server";
import { sessionBody } from "./session.ts";

Deno.test("sessionBody() tells what clients may know of a session", () => {
  const session: SessionInfo = {
    id: "s",
    createdAtMs: 1,
    settings: {
      instructions: "i",
      model: "m",
      tools: ["read"],
      metadata: { a: "b" },
      budget: { max_steps: 2 },
    },
    turns: 3,
    ledger: EMPTY_LEDGER,
    lastEvent: 4,
  };
  const body = {
    id: "s",
    created_at: "1970-01-01T00:00:00.001Z",
    status: "idle",
    instructions: "i",
    model: "m",
    tools: ["read"],
    metadata: { a: "b" },
    budget: { max_steps: 2 },
    turns: 3,
    last_event: 4,
    ledger: EMPTY_LEDGER,
  } as const;
  assertEquals(sessionBody(session), body);
  const running = { cancel() {}, steer() {}, done: Promise.resolve() };
  assertEquals(sessionBody({ ...session, running }), { ...body, status: "running" });
});
