import { assertEquals, assertRejects } from "@std/assert";
import { EMPTY_LEDGER } from "@tare/loop/internal";
import type { SessionEvent } from "@tare/server";
import type { NumberedEvent } from "@tare/server/internal";
import { type Approval, type ApprovalAnswer, RefusedError } from "../agent_client.ts";
import { watchTurn } from "./watch_turn.ts";

const END: SessionEvent = { type: "turn_end", reason: "completed", text: "hi", ledger: EMPTY_LEDGER };
const START: SessionEvent = { type: "turn_start", input: "q" };

async function* numbered(events: readonly SessionEvent[], after: number): AsyncGenerator<NumberedEvent> {
  for (const [index, event] of events.entries()) yield { number: after + index + 1, event };
}

/** Returns a client whose turns have these events, and whether it was cancelled. */
function client(started: Promise<readonly SessionEvent[]>) {
  const cancelled: string[] = [];
  return {
    cancelled,
    startTurn: async () => numbered(await started, 0),
    follow: () => Promise.reject(new Error("Nothing continues.")),
    approvals: () => Promise.resolve([]),
    answer: () => Promise.reject(new Error("Nothing is asked.")),
    cancel: (session: string) => {
      cancelled.push(session);
      return Promise.resolve();
    },
  };
}

Deno.test("watchTurn() shows a turn's events and resolves to its end, which can't be cancelled", async () => {
  const server = client(Promise.resolve([START, END]));
  const printed: SessionEvent[] = [];
  const turn = watchTurn(server, { session: "s", input: "q", show: (event) => void printed.push(event) });
  assertEquals(await turn.end, END);
  await turn.cancel();
  assertEquals([printed, server.cancelled], [[START, END], []]);
});

Deno.test("watchTurn() cancels once the server has accepted the turn, and not if it refuses", async () => {
  const started = Promise.withResolvers<readonly SessionEvent[]>();
  const server = client(started.promise);
  const turn = watchTurn(server, { session: "s", input: "q", show() {} });
  const cancel = turn.cancel();
  await Promise.resolve();
  assertEquals(server.cancelled, []);
  started.resolve([START]);
  await cancel;
  assertEquals(server.cancelled[0], "s");
  await assertRejects(() => turn.end, Error, "The server closed the stream before the turn's end.");

  const refusing = client(Promise.reject(new Error("busy")));
  const refused = watchTurn(refusing, { session: "s", input: "q", show() {} });
  await assertRejects(() => refused.end, Error, "busy");
  await refused.cancel();
  assertEquals(refusing.cancelled, []);
});

Deno.test("watchTurn() cancels a turn whose events can't be shown", async () => {
  const server = client(Promise.resolve([START, END]));
  const turn = watchTurn(server, {
    session: "s",
    input: "q",
    show() {
      throw new Error("Broken pipe");
    },
  });
  await assertRejects(() => turn.end, Error, "Broken pipe");
  assertEquals(server.cancelled, ["s"]);
});

Deno.test("watchTurn() requests approvals, continues, and skips those answered elsewhere", async () => {
  const approvalEvent = (
    id: string,
  ) => ({
    type: "approval_requested",
    step: 1,
    approvalId: `q-${id}`,
    id,
    name: "shell",
    arguments: "{}",
  } as const);
  const answered = (id: string) =>
    ({ type: "approval_answered", approvalId: `q-${id}`, id, decision: "allow", by: "user" }) as const;
  const approval = (callId: string): Approval => ({
    id: `q-${callId}`,
    callId,
    name: "shell",
    arguments: "{}",
    requestedAtMs: 1,
    expiresAtMs: 2,
  });
  const waits: SessionEvent = { type: "turn_end", reason: "approval", text: "", ledger: EMPTY_LEDGER };
  let open = ["a", "b", "c"];
  const answers: unknown[] = [];
  const behind = Promise.withResolvers<void>();
  const afters: number[] = [];
  const server = {
    ...client(Promise.resolve([START, approvalEvent("a"), approvalEvent("b"), approvalEvent("c"), waits])),
    follow: (_: string, after: number) => {
      afters.push(after);
      return Promise.resolve((async function* () {
        yield* numbered([answered("b")], after);
        await behind.promise;
        yield* numbered([answered("a"), answered("c"), START, END], after + 1);
      })());
    },
    approvals: () => Promise.resolve(open.map(approval)),
    answer: (_: string, { id, callId }: Pick<Approval, "id"> & Partial<Approval>, answer: ApprovalAnswer) => {
      answers.push([id, answer]);
      open = open.filter((one) => one !== callId);
      // A refusal doesn't matter if another client has answered.
      return callId === "c" ? Promise.reject(new Error("Too late.")) : Promise.resolve();
    },
  };
  const printed: string[] = [];
  const turn = watchTurn(server, {
    session: "s",
    input: "q",
    show: (event) => void printed.push(event.type),
    async ask({ callId }, signal) {
      if (callId === "b") {
        await new Promise<void>((resolve) => {
          if (signal.aborted) resolve();
          signal.addEventListener("abort", () => resolve());
        });
        return { decision: "deny" };
      }
      if (callId === "c") queueMicrotask(behind.resolve);
      return { decision: "allow" };
    },
  });
  assertEquals(await turn.end, END);
  assertEquals(answers, [["q-a", { decision: "allow" }], ["q-c", { decision: "allow" }]]);
  assertEquals(afters, [5]);
  assertEquals(printed.slice(5), [
    ...["approval_answered", "approval_answered", "approval_answered"],
    ...["turn_start", "turn_end"],
  ]);
});

Deno.test("watchTurn() keeps approvals pending through a server's shutdown", async () => {
  const event: SessionEvent = {
    type: "approval_requested",
    step: 1,
    approvalId: "q-a",
    id: "a",
    name: "shell",
    arguments: "{}",
  };
  const waits: SessionEvent = { type: "turn_end", reason: "approval", text: "", ledger: EMPTY_LEDGER };
  const yes: SessionEvent = {
    type: "approval_answered",
    approvalId: "q-a",
    id: "a",
    decision: "allow",
    by: "user",
  };
  // Requested by its own turn, or before it joined.
  for (const input of ["q", undefined]) {
    const printedEvent = Promise.withResolvers<undefined>();
    const printedLater: string[] = [];
    let server: "ends" | "is away" | "is there again" = "ends";
    const watched = {
      ...client(Promise.resolve([START, event, waits])),
      follow: (_: string, after: number) =>
        Promise.resolve((async function* () {
          if (server === "is there again") yield* numbered([yes, START, END], after);
          else server = "is away";
        })()),
      approvals: () => {
        if (server !== "is away") {
          return Promise.resolve([{
            id: "q-a",
            callId: "a",
            name: "shell",
            arguments: "{}",
            requestedAtMs: 1,
            expiresAtMs: 2,
          }]);
        }
        server = "is there again";
        return Promise.reject(new RefusedError(0, "It can't be reached."));
      },
    };
    const turn = watchTurn(watched, {
      ...{ session: "s", maxPauseMs: 0, show: ({ type }: SessionEvent) => void printedLater.push(type) },
      ...(input === undefined ? { after: 3 } : { input }),
      ask: (_, settled) => {
        settled.addEventListener("abort", () => printedEvent.resolve(undefined));
        return printedEvent.promise;
      },
    });
    assertEquals(await turn.end, END);
    const before = input === undefined ? [] : ["turn_start", "approval_requested", "turn_end"];
    assertEquals(printedLater, [...before, "warning", "approval_answered", "turn_start", "turn_end"]);
    assertEquals(watched.cancelled, []);
  }
});

Deno.test("watchTurn() treats a turn with withdrawn approvals as cancelled", async () => {
  const waits: SessionEvent = { type: "turn_end", reason: "approval", text: "", ledger: EMPTY_LEDGER };
  const server = {
    ...client(Promise.resolve([START, waits])),
    follow: () =>
      Promise.resolve(
        numbered(
          [{ type: "approval_answered", approvalId: "q-a", id: "a", decision: "deny", by: "cancel" }],
          2,
        ),
      ),
  };
  const options = { session: "s", input: "q", show() {}, ask: () => Promise.resolve(undefined) };
  assertEquals((await watchTurn(server, options).end).reason, "cancelled");
});

Deno.test("watchTurn() without an input shows events after the last known one of an ended turn", async () => {
  const printedLater: string[] = [];
  const server = {
    ...client(Promise.resolve([])),
    follow: (_: string, after: number) => Promise.resolve(numbered([START, END].slice(after), after)),
  };
  const show = ({ type }: SessionEvent) => void printedLater.push(type);
  const turn = watchTurn(server, { session: "s", after: 1, show, ask: () => Promise.resolve(undefined) });
  assertEquals([await turn.end, printedLater], [END, ["turn_end"]]);
});

Deno.test("watchTurn() without an input answers pending approvals and continues the turn", async () => {
  const approval = {
    id: "q-a",
    callId: "a",
    name: "shell",
    arguments: "{}",
    requestedAtMs: 1,
    expiresAtMs: 2,
  };
  let open: Approval[] = [approval];
  const answered = Promise.withResolvers<void>();
  const server = {
    ...client(Promise.resolve([])),
    follow: (_: string, after: number) =>
      Promise.resolve((async function* () {
        await answered.promise;
        yield* numbered(
          [
            { type: "approval_answered", approvalId: "q-a", id: "a", decision: "allow", by: "user" },
            START,
            END,
          ],
          after,
        );
      })()),
    approvals: () => Promise.resolve(open),
    answer: () => {
      open = [];
      answered.resolve();
      return Promise.resolve();
    },
  };
  const requests: string[] = [];
  const turn = watchTurn(server, {
    session: "s",
    show() {},
    ask({ id }) {
      requests.push(id);
      return Promise.resolve({ decision: "allow" });
    },
  });
  assertEquals([await turn.end, requests], [END, ["q-a"]]);
});

Deno.test("watchTurn() resumes a turn after the server's restart", async () => {
  const followed: number[] = [];
  const printed: string[] = [];
  const server = {
    ...client(Promise.resolve([])),
    async startTurn() {
      return await Promise.resolve(breakingOff());
    },
    follow(_session: string, after: number) {
      const ending = new RefusedError(503, "The server is shutting down; retry.");
      if (followed.push(after) === 1) return Promise.reject(ending);
      return Promise.resolve(numbered([{ type: "turn_resumed", step: 1 }, END], 1));
    },
  };
  async function* breakingOff() {
    yield* numbered([START], 0);
    throw new RefusedError(0, "The connection broke.");
  }
  const show = ({ type }: SessionEvent) => void printed.push(type);
  const turn = watchTurn(server, { session: "s", input: "q", show, maxPauseMs: 0 });
  assertEquals(await turn.end, END);
  assertEquals([followed, printed], [[1, 1], ["turn_start", "warning", "turn_resumed", "turn_end"]]);
  assertEquals(server.cancelled, []);
});

Deno.test("watchTurn() retries an answer until the server is back", async () => {
  const event: SessionEvent = {
    type: "approval_requested",
    step: 1,
    approvalId: "q-a",
    id: "a",
    name: "shell",
    arguments: "{}",
  };
  const waits: SessionEvent = { type: "turn_end", reason: "approval", text: "", ledger: EMPTY_LEDGER };
  const answered = Promise.withResolvers<void>();
  const answers: string[] = [];
  const server = {
    ...client(Promise.resolve([START, event, waits])),
    follow: (_: string, after: number) =>
      Promise.resolve((async function* () {
        await answered.promise;
        yield* numbered(
          [
            { type: "approval_answered", approvalId: "q-a", id: "a", decision: "allow", by: "user" },
            START,
            END,
          ],
          after,
        );
      })()),
    approvals: () =>
      Promise.resolve(
        answers.length === 2
          ? []
          : [{ id: "q-a", callId: "a", name: "shell", arguments: "{}", requestedAtMs: 1, expiresAtMs: 2 }],
      ),
    answer: (_: string, { id }: Pick<Approval, "id">, { decision }: ApprovalAnswer) => {
      if (answers.push(`${id} ${decision}`) === 1) {
        return Promise.reject(new RefusedError(0, "It can't be reached."));
      }
      answered.resolve();
      return Promise.resolve();
    },
  };
  const ask = () => Promise.resolve({ decision: "allow" } as const);
  const turn = watchTurn(server, { session: "s", input: "q", show() {}, ask, maxPauseMs: 0 });
  assertEquals([await turn.end, answers], [END, ["q-a allow", "q-a allow"]]);
  assertEquals(server.cancelled, []);
});
