import { RequestError, type StopReason } from "@agentclientprotocol/sdk";
import { assertEquals, assertRejects } from "@std/assert";
import type { TurnEnd } from "@tare/loop";
import { EMPTY_LEDGER } from "@tare/loop/internal";
import type { NumberedEvent } from "@tare/server/internal";
import { RefusedError } from "../agent_client.ts";
import { edit, end, newSession, numbered, say, STEP, TEXT, textsOf, URL } from "./editor_fixture_test.ts";

async function fails(request: Promise<unknown>, code: number, message: string): Promise<void> {
  const error = await assertRejects(() => request, RequestError);
  assertEquals([error.code, error.message], [code, message]);
}

Deno.test("editorAgent() reports its capabilities", async () => {
  await edit({}, async (agent) => {
    const { protocolVersion, agentCapabilities } = await agent.request("initialize", { protocolVersion: 7 });
    assertEquals([protocolVersion, agentCapabilities], [1, {
      loadSession: true,
      promptCapabilities: { image: true, audio: false, embeddedContext: true },
      mcpCapabilities: { http: false, sse: false },
      sessionCapabilities: { list: {}, resume: {}, close: {}, delete: {} },
    }]);
  });
});

Deno.test("editorAgent() ends a prompt with the turn's stop reason", async () => {
  const reasons: Readonly<Record<string, StopReason>> = {
    completed: "end_turn",
    tool_calls: "end_turn",
    cancelled: "cancelled",
    step_limit: "max_turn_requests",
    budget: "max_turn_requests",
    output_limit: "max_tokens",
  };
  let next: TurnEnd["reason"] = "completed";
  const startTurn = () => Promise.resolve(numbered([STEP, TEXT("Hello."), end(next, `So: ${next}.`)]));
  await edit({ startTurn }, async (agent, updates) => {
    await newSession(agent);
    for (const [reason, stopReason] of Object.entries(reasons)) {
      next = reason as TurnEnd["reason"];
      updates.length = 0;
      assertEquals(await say(agent), { stopReason }, reason);
      const isLimit = stopReason.startsWith("max");
      assertEquals(textsOf(updates), ["Hello.", ...(isLimit ? [`warning: So: ${reason}.`] : [])]);
    }
    for (const reason of ["stalled", "interrupted", "model_error", "internal_error"] as const) {
      next = reason;
      await fails(say(agent), -32603, `So: ${reason}.`);
    }
  });
});

const BROKE = new RefusedError(0, "The connection to the server broke.");
const AWAY = "warning: The server can't be reached. Waiting for it; the turn continues once it is back.";

async function* breaking(): AsyncGenerator<NumberedEvent, void> {
  yield* numbered([STEP, TEXT("Hel"), { type: "tool_call", step: 1, id: "x", name: "n", arguments: "{}" }]);
  throw BROKE;
}

Deno.test("editorAgent() resumes after a lost connection, and reports that it waits for the server", async () => {
  const read: number[] = [];
  let fails = 0;
  await edit({
    startTurn: () => Promise.resolve(breaking()),
    follow(_session, after) {
      read.push(after);
      if (fails-- > 0) return Promise.reject(new RefusedError(503, "The server is shutting down; retry."));
      return Promise.resolve(numbered([TEXT("lo."), end("completed")], after));
    },
  }, async (agent, updates) => {
    await newSession(agent);
    assertEquals(await say(agent), { stopReason: "end_turn" });
    assertEquals([textsOf(updates), read], [["Hel", "tool_call", AWAY, "lo.", "tool_call_update"], [3]]);
    fails = 5;
    updates.length = read.length = 0;
    assertEquals(await say(agent), { stopReason: "end_turn" });
    assertEquals(textsOf(updates), ["Hel", "tool_call", AWAY, "lo.", "tool_call_update"]);
    assertEquals(read, [3, 3, 3, 3, 3, 3]);
  }, { maxPauseMs: 0 });
});

Deno.test("editorAgent() fails if the server doesn't return or has lost the turn", async () => {
  let error: Error = BROKE;
  const follow = () => Promise.reject(error);
  await edit({ startTurn: () => Promise.resolve(breaking()), follow }, async (agent, updates) => {
    await newSession(agent);
    await fails(say(agent), -32603, "The connection to the server broke.");
    assertEquals(textsOf(updates), ["Hel", "tool_call", AWAY, "tool_call_update"]);
    error = new RefusedError(404, "There is no such session.");
    await fails(say(agent), -32002, "There is no such session.");
  }, { maxPauseMs: 0 });
  const none = () => Promise.resolve(numbered([]));
  await edit({ startTurn: none, follow: none }, async (agent) => {
    await newSession(agent);
    await fails(say(agent), -32603, "The server closed the stream before the turn's end.");
  });
});

Deno.test("editorAgent() cancels a turn after a restart if it was cancelled during the outage", async () => {
  const requests: string[] = [];
  const inspected = Promise.withResolvers<void>();
  let isAway = true;
  await edit({
    startTurn: () => Promise.resolve(breaking()),
    cancel() {
      requests.push("cancel");
      if (!isAway) return Promise.resolve();
      isAway = false;
      return Promise.reject(BROKE);
    },
    async follow(_session, after) {
      inspected.resolve();
      if (isAway) throw await Promise.resolve(BROKE);
      requests.push("follow");
      return numbered([end("cancelled")], after);
    },
  }, async (agent) => {
    await newSession(agent);
    const played = say(agent);
    await inspected.promise;
    await agent.notify("session/cancel", { sessionId: "s" });
    assertEquals(await played, { stopReason: "cancelled" });
    assertEquals(requests, ["cancel", "cancel", "follow"]);
  }, { maxPauseMs: 0 });
});

Deno.test("editorAgent() cancels a turn before the server has accepted it", async () => {
  for (const isRefused of [false, true]) {
    const started = Promise.withResolvers<AsyncIterable<NumberedEvent>>();
    const ended = Promise.withResolvers<void>();
    const cancelled: string[] = [];
    const events = async function* () {
      yield* numbered([STEP]);
      await ended.promise;
      yield* numbered([end("internal_error")], 1);
    };
    await edit({
      startTurn: () => started.promise,
      cancel(session) {
        cancelled.push(session);
        ended.resolve();
        return Promise.resolve();
      },
    }, async (agent) => {
      await newSession(agent);
      const played = say(agent);
      await agent.notify("session/cancel", { sessionId: "s" });
      await agent.notify("session/cancel", { sessionId: "unknown" });
      // The response proves that earlier notifications have arrived.
      await agent.request("initialize", { protocolVersion: 1 });
      if (isRefused) started.reject(new Error("Cannot reach the server."));
      else started.resolve(events());
      assertEquals(await played, { stopReason: "cancelled" });
      assertEquals(cancelled, isRefused ? [] : ["s"]);
    });
  }
});

Deno.test("editorAgent() rejects invalid requests with code and message", async () => {
  const missing = new RefusedError(404, "Cannot find session s: there is no such session.");
  await edit({
    startTurn: (_session, input) =>
      Promise.reject(input === "Bad." ? new RefusedError(400, "Cannot read the body: bad.") : missing),
    session: () => Promise.reject(missing),
    deleteSession: () => Promise.reject(missing),
    createSession: () => Promise.reject(new RefusedError(401, "Unauthorized: send a server key.")),
  }, async (agent) => {
    const at = { sessionId: "s", cwd: "/w", mcpServers: [] };
    await fails(say(agent), -32002, missing.message);
    await fails(agent.request("session/load", at), -32002, missing.message);
    await fails(agent.request("session/resume", at), -32002, missing.message);
    await fails(say(agent, "Bad."), -32602, "Cannot read the body: bad.");
    await fails(say(agent, ""), -32602, "Cannot send the prompt: it is empty.");
    await fails(newSession(agent), -32603, "Unauthorized: send a server key.");
    // The protocol's client treats deleting an unknown session as success.
    assertEquals(await agent.request("session/delete", { sessionId: "s" }), {});
  });
});

Deno.test("editorAgent() reports another workspace, and rejects an unrelated one", async () => {
  const parts = { startTurn: () => Promise.resolve(numbered([end("completed")])) };
  const remark = (folder: string, url = URL) =>
    `The agent works in /w, the workspace of the server at ${url}, not in ${folder}.`;
  await edit(parts, async (agent, updates) => {
    for (const folder of ["/w", "/link"]) {
      await newSession(agent, folder);
      await say(agent);
    }
    assertEquals(textsOf(updates), []);
    for (const folder of ["/w/src", "/"]) {
      await newSession(agent, folder);
      await say(agent);
      await say(agent);
      assertEquals(textsOf(updates.splice(0)), [`info: ${remark(folder)}`]);
    }
    await fails(
      newSession(agent, "/v"),
      -32602,
      `Cannot use a session in /v: the workspace of the server at ${URL} is /w. Start a server in that ` +
        "folder with tare start, and run this command there, or name the new server: tare acp --url URL",
    );
  });
  // Another machine may have the same files in another folder.
  const far = "http://example.com:8787";
  await edit(parts, async (agent, updates) => {
    await newSession(agent, "/v");
    await say(agent);
    assertEquals(textsOf(updates), [`*${remark("/v", far)}*\n\n`]);
  }, { url: far, notices: false });
});

Deno.test("editorAgent() reports that the editor's MCP servers are not used", async () => {
  const parts = { startTurn: () => Promise.resolve(numbered([end("completed")])) };
  await edit(parts, async (agent, updates) => {
    const servers = ["a", "b"].map((name) => ({ name, command: "/bin/false", args: [], env: [] }));
    await agent.request("session/new", { cwd: "/w", mcpServers: servers });
    await say(agent);
    assertEquals(textsOf(updates), [
      `info: The editor's MCP servers (a, b) are not used: the server at ${URL} determines the tools.`,
    ]);
  });
});

Deno.test("editorAgent() lists the sessions of the server's workspace page by page", async () => {
  const session = (id: string, title: string) => ({
    ...{ id, title, turns: 1, ledger: EMPTY_LEDGER },
    createdAt: "2026-01-31T00:00:00.000Z",
  });
  await edit({
    pageOfSessions: (after) =>
      Promise.resolve(
        after === undefined
          ? { sessions: [session("b", "Hi."), session("a", "")], hasMore: true }
          : { sessions: [session(`behind ${after}`, "Ho.")], hasMore: false },
      ),
  }, async (agent) => {
    const first = await agent.request("session/list", {});
    assertEquals(first, {
      sessions: [{ sessionId: "b", cwd: "/w", title: "Hi." }, { sessionId: "a", cwd: "/w" }],
      nextCursor: "a",
    });
    assertEquals(await agent.request("session/list", { cwd: "/link", cursor: "a" }), {
      sessions: [{ sessionId: "behind a", cwd: "/w", title: "Ho." }],
    });
    assertEquals(await agent.request("session/list", { cwd: "/v" }), { sessions: [] });
  });
});

Deno.test("editorAgent() replays a loaded session and follows its running turn", async () => {
  const ended = Promise.withResolvers<void>();
  const cancelled: string[] = [];
  async function* events() {
    yield* numbered([
      { type: "turn_start", input: "Hi." },
      { type: "warning", message: "Old." },
      STEP,
      TEXT("A"),
    ]);
    yield* numbered([TEXT("B")], 4);
    await ended.promise;
    yield* numbered([TEXT("C"), end("cancelled")], 5);
  }
  await edit({
    session: () => Promise.resolve({ status: "running", lastEvent: 5, ledger: {}, approvals: [] }),
    follow: () => Promise.resolve(events()),
    startTurn: () => Promise.reject(new RefusedError(409, "A turn runs.")),
    cancel(session) {
      cancelled.push(session);
      ended.resolve();
      return Promise.resolve();
    },
  }, async (agent, updates, { leave }) => {
    await agent.request("session/load", { sessionId: "s", cwd: "/w", mcpServers: [] });
    assertEquals(textsOf(updates), ["Hi.", "AB"]);
    // Another client started it.
    await leave();
    assertEquals(cancelled, []);
    await fails(say(agent), -32603, "A turn runs.");
    assertEquals(await agent.request("session/close", { sessionId: "s" }), {});
    await agent.request("session/list", { cwd: "/v" });
    assertEquals([textsOf(updates), cancelled], [["Hi.", "AB", "C"], ["s"]]);
  });
});

Deno.test("editorAgent() withstands a disconnect while it follows another client's turn", async () => {
  const gone = Promise.withResolvers<void>();
  const left = Promise.withResolvers<void>();
  const read: number[] = [];
  async function* events() {
    try {
      yield* numbered([STEP]);
      await gone.promise;
      yield* numbered([TEXT("A"), end("completed")], 1);
    } finally {
      left.resolve();
    }
  }
  await edit({
    session: () => Promise.resolve({ status: "running", lastEvent: 1, ledger: {}, approvals: [] }),
    follow(_session, after) {
      read.push(after);
      return Promise.resolve(after === 0 ? events() : numbered([], after));
    },
  }, async (agent) => {
    await agent.request("session/load", { sessionId: "s", cwd: "/w", mcpServers: [] });
  });
  gone.resolve();
  await left.promise;
  // An unhandled rejection would fail the test after pending tasks.
  await new Promise((resolve) => setTimeout(resolve));
  assertEquals(read, [0]);
});

Deno.test("editorAgent() resumes a session without replaying it, and cancels its turn at the end", async () => {
  const cancelled: string[] = [];
  const events = Promise.withResolvers<void>();
  await edit({
    session: () => Promise.resolve({ status: "idle", lastEvent: 5, ledger: {}, approvals: [] }),
    follow: () => Promise.resolve(numbered([])),
    startTurn: () =>
      Promise.resolve((async function* () {
        await events.promise;
        yield* numbered([end("cancelled")], 5);
      })()),
    deleteSession: () => Promise.resolve(),
    cancel(session) {
      cancelled.push(session);
      events.resolve();
      return Promise.resolve();
    },
  }, async (agent, updates, { leave }) => {
    const at = { sessionId: "s", cwd: "/w", mcpServers: [] };
    assertEquals(await agent.request("session/resume", at), {});
    const played = say(agent);
    await agent.request("initialize", { protocolVersion: 1 });
    await leave();
    assertEquals([await played, cancelled, updates], [{ stopReason: "cancelled" }, ["s"], []]);
    assertEquals(await agent.request("session/delete", { sessionId: "s" }), {});
    await leave();
    assertEquals(cancelled, ["s"]);
  });
});
