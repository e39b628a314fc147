import { assertEquals } from "@std/assert";
import { HttpError } from "../http/http_error.ts";
import type { AgentSession } from "../sessions/agent_session.ts";
import { ApprovalTimers } from "./approvals.ts";

function made(...errors: unknown[]) {
  const waiting: { readonly ms: number; readonly work: () => void }[] = [];
  const reported: unknown[] = [];
  const answered: unknown[] = [];
  const timers = new ApprovalTimers({
    sessions: {
      get: (id) => {
        const error = errors.shift();
        if (error !== undefined) return Promise.reject(error);
        const answer: AgentSession["answer"] = (_say, request) => {
          answered.push([id, request]);
          return Promise.resolve(undefined);
        };
        return Promise.resolve({ answer } as AgentSession);
      },
    },
    now: () => 1_000,
    after: (ms, work) => {
      const timer = { ms, work };
      waiting.push(timer);
      return () => waiting.splice(waiting.indexOf(timer), 1);
    },
    onError: (error) => reported.push(error),
  });
  const fire = async () => {
    waiting.shift()?.work();
    await new Promise((resolve) => setTimeout(resolve));
  };
  return { timers, waiting, reported, answered, fire, delays: () => waiting.map(({ ms }) => ms) };
}

Deno.test("ApprovalTimers answers at the deadline, immediately if it has passed", async () => {
  const { timers, answered, fire, delays } = made();
  timers.set("a", 1_500);
  timers.set("a", 1_500);
  timers.set("b", 3);
  timers.set("c", 2_000);
  timers.set("c", undefined);
  assertEquals(delays(), [500, 0]);
  await fire();
  await fire();
  assertEquals(answered, [["a", { unattended: "deny" }], ["b", { unattended: "deny" }]]);
  timers.set("d", 5_000);
  timers.close();
  assertEquals(delays(), []);
});

Deno.test("ApprovalTimers waits longer than a timer can, retries failures, and forgets deleted sessions", async () => {
  const busy = new Error("Busy.");
  const gone = new HttpError(404, "not_found", "Gone.");
  const { timers, reported, answered, fire, delays } = made(busy, gone);
  timers.set("a", 1_000 + 2 ** 31 + 9);
  assertEquals(delays(), [2 ** 31 - 1]);
  await fire();
  assertEquals(delays(), [10]);
  await fire();
  assertEquals([delays(), reported], [[10_000], [busy]]);
  await fire();
  assertEquals([delays(), reported, answered], [[], [busy], []]);
  // A later session of the same id has its own time.
  timers.set("a", 1_000 + 2 ** 31 + 9);
  assertEquals(delays(), [2 ** 31 - 1]);
});
