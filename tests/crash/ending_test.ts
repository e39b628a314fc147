import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import type { SessionEvent } from "@tare/server";
import { toolCall } from "@tare/simulator";
import { closed } from "./closed.ts";
import { jsonPost } from "./json_post.ts";
import { startProgram } from "./program.ts";
import { readEvents } from "./read_events.ts";
import { recordingProvider } from "../recording_provider.ts";
import { serverCommand } from "./server_process.ts";

/** Command that runs until it is released or the workspace is gone. */
const COMMAND =
  "echo began >> log.txt; while [ -e log.txt ] && ! [ -e go ]; do sleep 0.02; done; echo ended >> log.txt";

/** Sends a signal to a server during a turn's command, restarts it, and returns the turn's events. */
async function endedBy(signal: Deno.Signal) {
  const folder = await Deno.makeTempDir();
  const workspace = join(folder, "workspace");
  await Deno.mkdir(workspace);
  const provider = recordingProvider(
    ({ messages }) =>
      messages.at(-1)?.role === "tool" ? { content: "Done." } : {
        tool_calls: [toolCall("shell", { command: COMMAND })],
      },
    () => 0,
  );
  const args = [
    ...["--port", "0", "--workspace", workspace, "--data", join(folder, "data"), "--approvals", "allow"],
    ...["--base-url", provider.url, "--model", "simulated", "--profile", "openai"],
  ];
  try {
    const first = await startProgram(serverCommand(args));
    const made = await fetch(`${first.url}/tare/v1/sessions`, jsonPost({}));
    const { id } = await made.json();
    const turn = await fetch(`${first.url}/tare/v1/sessions/${id}/turns`, jsonPost({ input: "Go." }));
    const reported = (async () => {
      try {
        for await (const { data } of readEvents(turn)) {
          if (JSON.parse(data).type === "turn_end") return "an end";
        }
        return "no end";
      } catch (error) {
        return String(error);
      }
    })();
    while (!await Deno.readTextFile(join(workspace, "log.txt")).catch(() => "")) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    first.signal(signal);
    await closed(first.url);
    if (signal === "SIGTERM") await Deno.writeTextFile(join(workspace, "go"), "");
    const output = await first.ended();
    const second = await startProgram(serverCommand(args));
    const events: SessionEvent[] = [];
    for await (const { data } of readEvents(await fetch(`${second.url}/tare/v1/sessions/${id}/events`))) {
      events.push(JSON.parse(data));
    }
    await second.end("SIGKILL");
    return {
      events,
      output,
      reported: await reported,
      log: await Deno.readTextFile(join(workspace, "log.txt")),
    };
  } finally {
    await provider.close();
    await Deno.remove(folder, { recursive: true });
  }
}

const outline = (events: readonly SessionEvent[]) =>
  events.flatMap((event) =>
    event.type === "turn_end"
      ? [`${event.type} ${event.reason}`]
      : event.type === "tool_result"
      ? [event.error ? "an error" : "a result"]
      : event.type.startsWith("turn")
      ? [event.type]
      : []
  );

Deno.test("shutdown: a server lets the current step end, and the next start resumes the turn", async () => {
  const { events, reported, output, log } = await endedBy("SIGTERM");
  assertEquals(outline(events), ["turn_start", "a result", "turn_resumed", "turn_end completed"]);
  assertEquals([log, output], ["began\nended\n", ""]);
  assert(reported.includes("server_ending"), reported);
});

Deno.test("shutdown: Ctrl-C ends a turn as interrupted, also after the next start", async () => {
  const { events, reported, output } = await endedBy("SIGINT");
  assertEquals(outline(events), ["turn_start", "an error", "turn_end interrupted"]);
  assertEquals([reported, output], ["an end", ""]);
});
