import { assertEquals } from "@std/assert";
import { endGroup, groupIsAlive, settlesWithin } from "./processes.ts";

const never = new Promise(() => {});

/** Starts a script in its own process group and waits for its first output. */
async function start(script: string): Promise<Deno.ChildProcess> {
  const child = new Deno.Command("/bin/sh", {
    args: ["-c", script],
    detached: true,
    stdin: "null",
    stdout: "piped",
    stderr: "null",
  })
    .spawn();
  const reader = child.stdout.getReader();
  await reader.read();
  await reader.cancel();
  return child;
}

Deno.test("endGroup() sends SIGTERM first: a process may clean up", async () => {
  const child = await start("trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done");
  assertEquals(groupIsAlive(child.pid), true);
  await endGroup(child.pid, { graceMs: 10_000, enough: child.status });
  assertEquals((await child.status).code, 7);
});

Deno.test("endGroup() ends processes that ignore SIGTERM", async () => {
  const child = await start("trap '' TERM; echo ready; while :; do sleep 0.05; done");
  await endGroup(child.pid, { graceMs: 40, enough: never });
  assertEquals((await child.status).signal, "SIGKILL");
});

Deno.test("endGroup() and groupIsAlive() accept a group that has ended", async () => {
  const child = await start("echo ready");
  await child.status;
  assertEquals(groupIsAlive(child.pid), false);
  await endGroup(child.pid, { graceMs: 1000, enough: never });
});

Deno.test("settlesWithin() returns whether work settled in time", async () => {
  assertEquals(await settlesWithin(Promise.resolve(), 10_000), true);
  assertEquals(await settlesWithin(Promise.reject(new Error("x")), 10_000), true);
  assertEquals(await settlesWithin(never, 1), false);
});
