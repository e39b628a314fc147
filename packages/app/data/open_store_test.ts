import { assertEquals } from "@std/assert";
import { join } from "@std/path";
import { freePlace, onlyPlace } from "./open_store.ts";

/** Runs a test with a data folder that isn't there yet. */
async function withFolder(test: (data: string) => Promise<void>): Promise<void> {
  const top = await Deno.makeTempDir();
  try {
    await test(join(top, "data"));
  } finally {
    await Deno.remove(top, { recursive: true });
  }
}

/** A process that a command of this owner has left running. */
function leave(owner: string): Deno.ChildProcess {
  const env = { TARE_COMMAND: `${owner}.id` };
  return new Deno.Command("/bin/sh", { args: ["-c", "exec sleep 60"], env, stdin: "null" }).spawn();
}

const ignore = Deno.build.os !== "linux";

Deno.test("freePlace() gives each server a place of its own, and ends what those that are gone left", {
  ignore,
}, () =>
  withFolder(async (data) => {
    const [one, two] = [await freePlace(data), await freePlace(data)];
    const three = await freePlace(data);
    assertEquals(new Set([one.owner, two.owner, three.owner]).size, 3);
    const [ofOne, ofTwo, ofThree] = [leave(one.owner), leave(two.owner), leave(three.owner)];
    one.close();
    three.close();
    const next = await freePlace(data);
    assertEquals([next.owner, next.ended], [one.owner, 2]);
    const signals = await Promise.all([ofOne.status, ofThree.status]);
    assertEquals(signals.map(({ signal }) => signal), ["SIGTERM", "SIGTERM"]);
    ofTwo.kill("SIGKILL");
    assertEquals((await ofTwo.status).signal, "SIGKILL");
    const last = await freePlace(data);
    assertEquals([last.owner, last.ended], [three.owner, 0]);
    for (const place of [two, next, last]) place.close();
  }));

Deno.test("onlyPlace() is the same for each server of a data folder, and ends what the one before left", {
  ignore,
}, () =>
  withFolder(async (data) => {
    const { owner } = await onlyPlace(data);
    const left = leave(owner);
    assertEquals(await onlyPlace(data).then(({ owner: again, ended }) => [again, ended]), [owner, 1]);
    assertEquals((await left.status).signal, "SIGTERM");
  }));
