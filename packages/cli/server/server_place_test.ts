import { assertEquals } from "@std/assert";
import { join } from "@std/path";
import { freePlace, onlyPlace } from "./server_place.ts";
import { LINUX, needs } from "../../../tests/needs.ts";

/** Runs a test with a data folder that doesn't exist yet. */
async function withFolder(test: (data: string) => Promise<void>): Promise<void> {
  const top = await Deno.makeTempDir();
  try {
    await test(join(top, "data"));
  } finally {
    await Deno.remove(top, { recursive: true });
  }
}

/** Starts a process left by this owner. It prints when its environment can be read. */
async function leave(owner: string) {
  const env = { TARE_COMMAND: `${owner}.id` };
  const process = new Deno.Command("/bin/sh", {
    args: ["-c", "echo begun; read _"],
    ...{ env, stdin: "piped", stdout: "piped" },
  }).spawn();
  const output = process.stdout.getReader();
  await output.read();
  await output.cancel();
  return {
    kill: () => process.kill("SIGKILL"),
    status: process.status.finally(() => process.stdin.close()),
  };
}

Deno.test(
  needs(LINUX, "freePlace() returns a place per server, and ends processes of crashed ones"),
  () =>
    withFolder(async (data) => {
      const [one, two] = [await freePlace(data), await freePlace(data)];
      const three = await freePlace(data);
      assertEquals(new Set([one.owner, two.owner, three.owner]).size, 3);
      const ofOne = await leave(one.owner);
      const ofTwo = await leave(two.owner);
      const ofThree = await leave(three.owner);
      one.close();
      three.close();
      const next = await freePlace(data);
      assertEquals([next.owner, next.ended], [one.owner, 2]);
      const signals = await Promise.all([ofOne.status, ofThree.status]);
      assertEquals(signals.map(({ signal }) => signal), ["SIGTERM", "SIGTERM"]);
      ofTwo.kill();
      assertEquals((await ofTwo.status).signal, "SIGKILL");
      const last = await freePlace(data);
      assertEquals([last.owner, last.ended], [three.owner, 0]);
      for (const place of [two, next, last]) place.close();
    }),
);

Deno.test(
  needs(LINUX, "onlyPlace() returns one place per data folder, and ends processes of the previous server"),
  () =>
    withFolder(async (data) => {
      const { owner } = await onlyPlace(data);
      const left = await leave(owner);
      assertEquals(await onlyPlace(data).then(({ owner: again, ended }) => [again, ended]), [owner, 1]);
      assertEquals((await left.status).signal, "SIGTERM");
    }),
);
