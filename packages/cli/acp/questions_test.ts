import type { RequestPermissionRequest, SessionUpdate } from "@agentclientprotocol/sdk";
import { assertEquals } from "@std/assert";
import type { NumberedEvent } from "@tare/server/internal";
import { type AgentClient, RefusedError } from "../agent_client.ts";
import { edit, end, type Event, newSession, say, TEXT, textsOf } from "./editor_fixture_test.ts";

/** Events of a session whose turn requests approval; more follow an answer. */
class AskingServer {
  readonly answers: unknown[] = [];
  readonly cancelled: string[] = [];
  #events: Event[];
  #isOpen = true;
  #changed = Promise.withResolvers<void>();
  /** Events after the answer to a call. */
  then: (id: string) => readonly Event[] = () => [end("completed")];

  constructor(events: readonly Event[]) {
    this.#events = [...events];
  }

  add(events: readonly Event[], isOpen = true): void {
    this.#events.push(...events);
    this.#isOpen = isOpen;
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }

  async *read(after = 0): AsyncGenerator<NumberedEvent, void> {
    for (let at = after;;) {
      const event = this.#events[at];
      if (event) yield { number: ++at, event };
      else if (this.#isOpen) await this.#changed.promise;
      else return;
    }
  }

  get parts(): Partial<AgentClient> {
    return {
      startTurn: () => Promise.resolve(this.read()),
      follow: (_session, after) => Promise.resolve(this.read(after)),
      answer: (session, { id: approvalId }, { decision }) => {
        const id = approvalId.slice("q-".length);
        this.answers.push([session, approvalId, decision]);
        this.add([
          {
            type: "approval_answered",
            approvalId,
            id,
            decision: decision === "deny" ? "deny" : "allow",
            by: "user",
          },
          ...this.then(id),
        ]);
        return Promise.resolve();
      },
      cancel: (session) => {
        this.cancelled.push(session);
        this.add([
          { type: "approval_answered", approvalId: "q-x", id: "x", decision: "deny", by: "cancel" },
          DENIED,
        ], false);
        return Promise.resolve();
      },
    };
  }
}

const DENIED: Event = {
  type: "message_added",
  message: { role: "tool", tool_call_id: "x", content: "Cannot run it: cancelled." },
};
const call = (id: string): readonly Event[] => [
  { type: "tool_call", step: 1, id, name: "shell", arguments: '{"command":"ls"}' },
];
const question = (id: string): Event => ({
  type: "approval_requested",
  step: 1,
  approvalId: `q-${id}`,
  id,
  name: "shell",
  arguments: '{"command":"ls"}',
  requestedAtMs: 7,
});
const ran = (id: string, error = false): Event => ({
  type: "tool_result",
  step: 1,
  id,
  name: "shell",
  content: "done",
  error,
  bytes: 4,
  durationMs: 1,
});

/** Returns the states of each call's updates. */
function states(updates: readonly SessionUpdate[]): string[] {
  return updates.flatMap((update) =>
    update.sessionUpdate === "tool_call" || update.sessionUpdate === "tool_call_update"
      ? [`${update.toolCallId} ${update.status}`]
      : textsOf([update])
  );
}

Deno.test("editorAgent() requests permission before calls run, and follows the answer", async () => {
  const server = new AskingServer([
    ...call("x"),
    ...call("y"),
    question("x"),
    question("y"),
    end("approval"),
  ]);
  const then: Readonly<Record<string, readonly Event[]>> = {
    x: [],
    y: [{ type: "turn_start" }, ran("x"), ran("y", true), ...call("z"), question("z"), end("approval")],
    z: [{ type: "turn_start" }, ran("z"), TEXT("Done."), end("completed")],
  };
  server.then = (id) => then[id] ?? [];
  const requests: RequestPermissionRequest[] = [];
  const choices = ["allow", "deny", "always"];
  await edit(server.parts, async (agent, updates) => {
    await newSession(agent);
    assertEquals(await say(agent), { stopReason: "end_turn" });
    assertEquals(server.answers, [["s", "q-x", "allow"], ["s", "q-y", "deny"], ["s", "q-z", "always"]]);
    assertEquals(states(updates), [
      "c1 in_progress",
      "c2 in_progress",
      "c1 pending",
      "c2 pending",
      "c1 in_progress",
      "c2 failed",
      "c1 completed",
      "c2 failed",
      "c11 in_progress",
      "c11 pending",
      "c11 in_progress",
      "c11 completed",
      "Done.",
    ]);
    assertEquals(requests.map(({ toolCall }) => [toolCall.toolCallId, toolCall.title, toolCall.kind]), [
      ["c1", "`ls`", "execute"],
      ["c2", "`ls`", "execute"],
      ["c11", "`ls`", "execute"],
    ]);
    assertEquals(requests[0]?.options.map(({ kind }) => kind), ["allow_once", "allow_always", "reject_once"]);
  }, {
    permit({ params }) {
      requests.push(params);
      return { outcome: { outcome: "selected", optionId: choices.shift() ?? "" } };
    },
  });
});

Deno.test("editorAgent() withdraws a request when the turn is cancelled or another client has answered", async () => {
  for (const isCancelled of [true, false]) {
    const server = new AskingServer([...call("x"), question("x"), end("approval")]);
    const requested = Promise.withResolvers<AbortSignal>();
    await edit(server.parts, async (agent, updates) => {
      await newSession(agent);
      const played = say(agent);
      const signal = await requested.promise;
      if (isCancelled) await agent.notify("session/cancel", { sessionId: "s" });
      else {
        server.add([
          { type: "approval_answered", approvalId: "q-x", id: "x", decision: "allow", by: "user" },
          ran("x"),
          end("completed"),
        ]);
      }
      assertEquals(await played, { stopReason: isCancelled ? "cancelled" : "end_turn" });
      const last = isCancelled ? ["c1 failed", "c1 failed"] : ["c1 in_progress", "c1 completed"];
      assertEquals(states(updates), ["c1 in_progress", "c1 pending", ...last]);
      assertEquals([signal.aborted, server.answers], [true, []]);
    }, {
      permit({ signal }) {
        requested.resolve(signal);
        return new Promise(() => {});
      },
    });
  }
});

Deno.test("editorAgent() cancels the turn if the editor cancels the dialog", async () => {
  const server = new AskingServer([...call("x"), question("x"), end("approval")]);
  await edit(server.parts, async (agent) => {
    await newSession(agent);
    assertEquals(await say(agent), { stopReason: "cancelled" });
    assertEquals([server.cancelled, server.answers], [["s"], []]);
  }, { permit: () => ({ outcome: { outcome: "cancelled" } }) });
});

Deno.test("editorAgent() keeps approvals pending when the editor disconnects", async () => {
  const server = new AskingServer([...call("x"), question("x"), end("approval")]);
  const requested = Promise.withResolvers<void>();
  await edit(server.parts, async (agent, _updates, { leave }) => {
    await newSession(agent);
    say(agent).catch(() => {});
    await requested.promise;
    await leave();
  }, {
    permit() {
      requested.resolve();
      return new Promise(() => {});
    },
  });
  assertEquals([server.answers, server.cancelled], [[], []]);
});

Deno.test("editorAgent() denies if the editor can't ask, and asks again if the server is full", async () => {
  const server = new AskingServer([...call("x"), question("x"), end("approval")]);
  await edit(server.parts, async (agent, updates) => {
    await newSession(agent);
    assertEquals(await say(agent), { stopReason: "end_turn" });
    assertEquals(server.answers, [["s", "q-x", "deny"]]);
    const warned = textsOf(updates).filter((line) => line.startsWith("warning:"));
    assertEquals(warned.map((line) => line.split(": ")[1]), [
      "Denied, because the editor can't ask for permission",
    ]);
  });

  const busy = new AskingServer([...call("x"), question("x"), end("approval")]);
  const refusals = [new RefusedError(429, "Too many turns."), new RefusedError(409, "Answered already.")];
  let requestCount = 0;
  await edit({
    ...busy.parts,
    answer(...args) {
      const refusal = refusals.shift();
      if (refusals.length === 0) busy.parts.answer?.(...args);
      return refusal ? Promise.reject(refusal) : Promise.resolve();
    },
  }, async (agent, updates) => {
    await newSession(agent);
    assertEquals(await say(agent), { stopReason: "end_turn" });
    assertEquals([requestCount, textsOf(updates).includes("warning: Too many turns.")], [2, true]);
  }, {
    permit() {
      requestCount++;
      return { outcome: { outcome: "selected", optionId: "allow" } };
    },
  });
});

Deno.test("editorAgent() requests pending approvals of a loaded or resumed session", async () => {
  for (const method of ["session/load", "session/resume"] as const) {
    const server = new AskingServer([...call("x"), question("x"), end("approval")]);
    server.then = () => [{ type: "turn_start" }, ran("x"), end("completed")];
    const open = {
      id: "q-x",
      callId: "x",
      name: "shell",
      arguments: '{"command":"ls"}',
      requestedAtMs: 7,
      expiresAtMs: 8,
    };
    await edit({
      ...server.parts,
      session: () => Promise.resolve({ status: "idle", lastEvent: 3, ledger: {}, approvals: [open] }),
    }, async (agent, updates, { come }) => {
      await agent.request(method, { sessionId: "s", cwd: "/w", mcpServers: [] });
      const [id, before] = method === "session/load" ? ["c1", ["c1 in_progress"]] : ["a3.x", []];
      await come(before.length + 3);
      assertEquals(states(updates), [...before, `${id} pending`, `${id} in_progress`, `${id} completed`]);
      assertEquals(server.answers, [["s", "q-x", "allow"]]);
    }, { permit: () => ({ outcome: { outcome: "selected", optionId: "allow" } }) });
  }
});

Deno.test("editorAgent() accepts a prompt while approvals are pending, and shows the results of their calls", async () => {
  const server = new AskingServer([...call("x"), question("x"), end("approval")]);
  const requested = Promise.withResolvers<AbortSignal>();
  await edit({
    ...server.parts,
    session: () => Promise.resolve({ status: "idle", lastEvent: 3, ledger: {}, approvals: [] }),
    startTurn(_session, input) {
      server.add([
        { type: "approval_answered", approvalId: "q-x", id: "x", decision: "deny", by: "cancel" },
        DENIED,
        { type: "turn_start", input },
        TEXT("Well."),
        end("completed"),
      ], false);
      return Promise.resolve(server.read(5));
    },
  }, async (agent, updates) => {
    await agent.request("session/load", { sessionId: "s", cwd: "/w", mcpServers: [] });
    const signal = await requested.promise;
    assertEquals(await say(agent), { stopReason: "end_turn" });
    assertEquals(states(updates), ["c1 in_progress", "c1 pending", "c1 failed", "c1 failed", "Well."]);
    assertEquals([signal.aborted, server.answers, server.cancelled], [true, [], []]);
  }, {
    permit({ signal }) {
      requested.resolve(signal);
      return new Promise(() => {});
    },
  });
});
