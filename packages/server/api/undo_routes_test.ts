import { assertEquals } from "@std/assert";
import { join } from "@std/path";
import type { AssistantMessage, Model, ModelRequest } from "@tare/messages";
import { workspaceTools } from "@tare/tools";
import { openCheckpoints } from "@tare/tools/undo";
import { ALLOW_EVERYTHING } from "@tare/server";
import {
  agent,
  call,
  error,
  newSession,
  scriptedModel,
  silentModel,
  type TestOptions,
  turn,
} from "../fixture_test.ts";
import { answerCall } from "../approvals/fixture_test.ts";

type Call = NonNullable<AssistantMessage["tool_calls"]>[number];

function calls(...made: readonly (readonly [name: string, args: object])[]): Partial<AssistantMessage> {
  return {
    content: null,
    tool_calls: made.map(([name, args], index): Call => ({
      id: String(index),
      type: "function",
      function: { name, arguments: JSON.stringify(args) },
    })),
  };
}

async function working(
  replies: readonly Partial<AssistantMessage>[] | Model,
  options: TestOptions = {},
) {
  const folder = await Deno.realPath(await Deno.makeTempDir());
  const workspace = join(folder, "workspace");
  await Deno.mkdir(workspace);
  const at = (path: string) => join(workspace, path);
  await Deno.writeTextFile(at("a.txt"), "a");
  const checkpoints = openCheckpoints({ workspace, folder: join(folder, "undo") });
  const tools = workspaceTools({ workspace });
  const requests: ModelRequest[] = [];
  const scripted = typeof replies === "function" ? replies : scriptedModel(replies);
  const model: Model = (request) => (requests.push(request), scripted(request));
  const handler = agent(model, { tools, checkpoints, ...options });
  return {
    ...{ handler, at, requests },
    read: (path: string) => Deno.readTextFile(at(path)).catch(() => undefined),
    async [Symbol.asyncDispose]() {
      await handler.close();
      await checkpoints.close();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

const NOT_COVERED = ["shell: what it did outside of the workspace's files."];

Deno.test("undo restores the files before a turn and notifies the model, and redo reverts that", async () => {
  await using server = await working([
    calls(["write_file", { path: "b.txt", content: "b" }], ["shell", { command: "echo A > a.txt" }]),
    { content: "done" },
    { content: "seen" },
  ]);
  const { handler, read, requests } = server;
  const session = await newSession(handler);
  await turn(handler, session, "change");
  const files = [{ path: "a.txt", change: "changed" }, { path: "b.txt", change: "created" }];
  const { body } = await call(handler, "GET", `${session}/changes`);
  const { turns: [{ atMs: _, ...rest }] } = body as { turns: [{ atMs: number }] };
  assertEquals(rest, { turn: 0, files, isUndone: false, notCovered: NOT_COVERED } as object);
  const back = [{ path: "a.txt", change: "changed" }, { path: "b.txt", change: "deleted" }];
  const undone = await call(handler, "POST", `${session}/undo`, {});
  assertEquals([undone.status, undone.body], [200, { turns: [0], files: back, notCovered: NOT_COVERED }]);
  assertEquals([await read("a.txt"), await read("b.txt")], ["a", undefined]);
  const redone = await call(handler, "POST", `${session}/redo`, {});
  assertEquals([redone.status, redone.body], [200, { turns: [0], files, notCovered: NOT_COVERED }]);
  assertEquals([await read("a.txt"), await read("b.txt")], ["A\n", "b"]);
  await turn(handler, session, "look");
  assertEquals(requests.at(-1)!.messages.slice(-3).map(({ role, content }) => `${role}: ${content}`), [
    "system: The user has undone the changes above: files are as before them. Changed now: a.txt (changed), " +
    "b.txt (deleted). Not covered: shell: what it did outside of the workspace's files.",
    "system: The user has reverted the undo: the changes above are restored. Changed now: a.txt (changed), " +
    "b.txt (created). Not covered: shell: what it did outside of the workspace's files.",
    "user: look",
  ]);
});

Deno.test("undo returns to before a turn with the conversation, in a new session", async () => {
  const write = (content: string) => calls(["write_file", { path: "a.txt", content }]);
  await using server = await working([
    write("1"),
    { content: "one" },
    write("2"),
    { content: "two" },
    { content: "three" },
    { content: "again" },
  ]);
  const { handler, read, requests } = server;
  const session = await newSession(handler, { metadata: { of: "user" } });
  for (const input of ["first", "second", "third"]) await turn(handler, session, input);
  const { body } = await call(handler, "GET", `${session}/changes`);
  const { turns } = body as { readonly turns: readonly { readonly turn: number }[] };
  const second = turns[1]!.turn;
  const { body: done } = await call(handler, "POST", `${session}/undo`, { turn: second, conversation: true });
  const { session: made } = done as { session: { id: string; metadata: object; title: string } };
  assertEquals([made.metadata, made.title, await read("a.txt")], [{ of: "user" }, "first", "1"]);
  await turn(handler, `/tare/v1/sessions/${made.id}`, "other");
  const texts = requests.at(-1)!.messages.filter(({ role }) => role === "user").map(({ content }) => content);
  assertEquals(texts, ["first", "other"]);
  const missing = await call(handler, "POST", `${session}/undo`, { turn: second + 1, conversation: true });
  assertEquals(
    { status: missing.status, body: missing.body },
    error(
      404,
      "not_found",
      `Cannot go back in session ${session.slice("/tare/v1/sessions/".length)}: no turn begins after event ${
        second + 1
      }.`,
    ),
  );
});

Deno.test("undo refuses and changes nothing if there is nothing to undo, a file was changed, or a turn runs", async () => {
  const silent = silentModel();
  const scripted = scriptedModel([calls(["write_file", { path: "a.txt", content: "1" }]), {
    content: "one",
  }]);
  let requestCount = 0;
  await using server = await working((request) =>
    ++requestCount > 2 ? silent.model(request) : scripted(request)
  );
  const { handler, at, read } = server;
  const session = await newSession(handler);
  const undo = async (body = {}) => {
    const { status, body: answer } = await call(handler, "POST", `${session}/undo`, body);
    return [status, (answer as { error?: { code: string } }).error?.code];
  };
  assertEquals(await undo(), [409, "nothing_to_undo"]);
  await turn(handler, session, "write");
  await Deno.writeTextFile(at("a.txt"), "user");
  assertEquals(await undo(), [409, "changed_since"]);
  assertEquals(await read("a.txt"), "user");
  const running = turn(handler, session, "wait");
  await silent.requested;
  assertEquals(await undo(), [409, "turn_running"]);
  await call(handler, "POST", `${session}/cancel`);
  await running;
  assertEquals(await undo({ force: true }), [200, undefined]);
  assertEquals(await read("a.txt"), "a");
  await call(handler, "DELETE", session);
});

Deno.test("undo: an approved call belongs to the turn that requested it, and so do the changes of a subagent", async () => {
  const write = (path: string) => calls(["write_file", { path, content: "x" }]);
  await using server = await working([
    write("b.txt"),
    { content: "asked for" },
    calls(["delegate", { task: "write c.txt" }]),
    write("c.txt"),
    { content: "written" },
    { content: "done" },
  ], {
    approvals: {
      rules: [{ tool: "write_file", paths: ["b.txt"], decision: "ask" }, ...ALLOW_EVERYTHING],
    },
    delegates: true,
  });
  const { handler, read } = server;
  const session = await newSession(handler);
  const changed = async () => {
    const { body } = await call(handler, "GET", `${session}/changes`);
    const { turns } = body as { turns: { turn: number; files: { path: string }[] }[] };
    return turns.map(({ turn, files }) => [turn, ...files.map(({ path }) => path)]);
  };
  await turn(handler, session, "write");
  await answerCall(handler, session, { callId: "0", decision: "allow" });
  const stream = await handler.fetch(new Request(`http://localhost${session}/events`));
  await stream.text();
  assertEquals(await changed(), [[0, "b.txt"]]);
  await turn(handler, session, "delegate");
  const [, [second]] = await changed() as [unknown, [number]];
  assertEquals(await changed(), [[0, "b.txt"], [second, "c.txt"]]);
  await call(handler, "POST", `${session}/undo`, { turn: 0 });
  assertEquals([await read("b.txt"), await read("c.txt")], [undefined, undefined]);
});

Deno.test("undo is 501 without checkpoints", async () => {
  const handler = agent(scriptedModel([]));
  const session = await newSession(handler);
  for (const [method, what] of [["GET", "changes"], ["POST", "undo"], ["POST", "redo"]] as const) {
    assertEquals(
      (await call(handler, method, `${session}/${what}`, method === "POST" ? {} : undefined)).status,
      501,
    );
  }
});
