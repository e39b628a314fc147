import { assertEquals } from "@std/assert";
import { launchers, whenLeft } from "./launchers.ts";
import { needs, PS } from "../../tests/needs.ts";

Deno.test("whenLeft() calls back once one of the processes has ended", async () => {
  const process = new Deno.Command("sleep", { args: ["60"] }).spawn();
  const left = Promise.withResolvers<void>();
  whenLeft(left.resolve, [process.pid]);
  process.kill("SIGKILL");
  await process.status;
  await left.promise;
});

Deno.test(
  needs(PS, "launchers() returns launching ancestors up to the user's shell"),
  async () => {
    const module = new URL("./launchers.ts", import.meta.url).href;
    const code = `const { launchers } = await import(${JSON.stringify(module)}); ` +
      "console.log(JSON.stringify([Deno.ppid, ...await launchers()]));";
    const deno = [Deno.execPath(), "eval", code];
    const run = async (args: string[]) => {
      const { stdout } = await new Deno.Command("sh", {
        args,
        clearEnv: true,
        env: { PATH: Deno.env.get("PATH") ?? "" },
      })
        .output();
      return JSON.parse(new TextDecoder().decode(stdout)) as number[];
    };
    // Both are children of this Deno process.
    const [shell, ...all] = await run(["-c", '"$@"; exit $?', "sh", ...deno]);
    assertEquals(all.slice(0, 2), [shell, Deno.pid]);
    const script = await Deno.makeTempFile();
    await Deno.writeTextFile(script, '"$@"; exit $?\n');
    assertEquals((await run([script, ...deno])).length, 1);
    await Deno.remove(script);
    assertEquals((await launchers()).every((pid) => pid > 0 && pid !== Deno.pid), true);
  },
);
