import { assertEquals } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { type ChildProcess, spawn } from "node:child_process";
import { supervise } from "./supervise.ts";
import { needs, NOT_WINDOWS, PS } from "../../tests/needs.ts";

function program(then: string): ChildProcess {
  const supervised = fromFileUrl(new URL("supervise.ts", import.meta.url));
  const code = `
    import process from "node:process";
    import { sendHeartbeats } from ${JSON.stringify(`file://${supervised}`)};
    const sent = Promise.withResolvers();
    const { send } = process;
    process.send = (message, written) => send.call(process, message, () => sent.resolve(written()));
    const stop = sendHeartbeats(5);
    console.log("started");
    await sent.promise;
    ${then}
  `;
  const program = `data:text/typescript,${encodeURIComponent(code)}`;
  return spawn(Deno.execPath(), ["run", "--no-config", "--no-lock", "--no-check", "-A", program], {
    stdio: ["ignore", "pipe", "inherit", "ipc"],
    env: { ...Deno.env.toObject(), NO_COLOR: "1" },
  });
}

function programs(...all: readonly string[]) {
  const output: string[] = [];
  const started: ChildProcess[] = [];
  const listeners = new Set<() => void>();
  const reading: Promise<void>[] = [];
  const read = async ({ stdout }: ChildProcess) => {
    for await (const text of stdout!.setEncoding("utf8")) {
      output.push(...String(text).trim().split("\n"));
      for (const listener of listeners) listener();
    }
  };
  return {
    output,
    started,
    start() {
      const process = program(all[started.length] ?? "");
      started.push(process);
      reading.push(read(process));
      return process;
    },
    async until(is: () => boolean) {
      while (!is()) {
        await new Promise<void>((resolve) => {
          const listener = () => {
            listeners.delete(listener);
            resolve();
          };
          listeners.add(listener);
        });
      }
    },
    read: () => Promise.all(reading),
  };
}

Deno.test(
  needs(
    NOT_WINDOWS,
    "supervise() restarts a server that doesn't answer, with growing pauses, and logs it",
  ),
  async () => {
    const run = programs("for (;;) {}", "for (;;) {}", "stop(); Deno.exit(7);");
    const log: string[] = [];
    const { code } = supervise({ start: run.start, log: (sentence) => log.push(sentence), everyMs: 200 });
    assertEquals(await code, 7);
    await run.read();
    assertEquals(run.output, ["started", "started", "started"]);
    assertEquals(log, [
      "Ended the server: it didn't respond for 2 s. It is restarted in 0.2 s.",
      "Ended the server: it didn't respond for 2 s. It is restarted in 0.4 s.",
    ]);
  },
);

Deno.test(
  needs(
    [NOT_WINDOWS, PS],
    "supervise() ignores a server that was suspended, and ends it on a signal",
  ),
  async () => {
    // It stops itself once; only the test continues it.
    const run = programs(`
    Deno.addSignalListener("SIGTERM", () => { console.log("ends"); stop(); Deno.exit(0); });
    Deno.addSignalListener("SIGCONT", () => console.log("goes on"));
    setInterval(() => {}, 1_000);
    console.log("stops");
    Deno.kill(Deno.pid, "SIGSTOP");
  `);
    const log: string[] = [];
    const { code, end } = supervise({
      start: run.start,
      log: (sentence) => log.push(sentence),
      everyMs: 200,
    });
    await run.until(() => run.output.includes("stops"));
    // Longer than ten checks.
    const since = performance.now();
    while (performance.now() - since < 3_000) {
      await new Deno.Command("ps", { args: ["-A"], stdout: "null" }).output();
    }
    Deno.kill(run.started[0]!.pid!, "SIGCONT");
    await run.until(() => run.output.includes("goes on"));
    end("SIGTERM");
    assertEquals(await code, 0);
    await run.read();
    assertEquals([run.output, log], [["started", "stops", "goes on", "ends"], []]);
  },
);
