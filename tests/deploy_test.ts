// What deploy/ holds fits what it starts.
// deno-lint-ignore-file no-console
import { assertEquals } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { VARIABLES } from "../packages/app/settings/settings.ts";

const ROOT = fromFileUrl(new URL("..", import.meta.url));
const unit = await Deno.readTextFile(join(ROOT, "deploy/tare@.service"));
const image = await Deno.readTextFile(join(ROOT, "deploy/Containerfile"));
const { tasks } = JSON.parse(await Deno.readTextFile(join(ROOT, "deno.json")));

/** Names that an `Environment=` or `ENV` line gives values. */
const namesIn = (text: string, line: RegExp) =>
  [...text.matchAll(line)].flatMap(([, rest = ""]) =>
    [...rest.matchAll(/(\w+)=/g)].map(([, name = ""]) => name)
  );
const DENOS = ["DENO_DIR", "DENO_NO_UPDATE_CHECK", "NO_COLOR"];

Deno.test("deploy/tare@.service sets what the server reads, and starts a task that there is", () => {
  const names = namesIn(unit, /^Environment=(.*)$/gm);
  assertEquals(names.filter((name) => !VARIABLES.includes(name)).sort(), DENOS);
  assertEquals(/^ExecStart=\S+\/deno task (\w+)$/m.exec(unit)?.[1]! in tasks, true);
});

Deno.test("deploy/tare@.service is a unit as systemd reads it", {
  ignore: !isThere("systemd-analyze"),
}, async () => {
  const folder = await Deno.makeTempDir();
  const path = join(folder, "tare@8787.service");
  // Whether a program is there is up to the machine.
  await Deno.writeTextFile(path, unit.replace("/usr/local/bin/deno", "/bin/true"));
  const { code, stderr } = await new Deno.Command("systemd-analyze", { args: ["verify", "--man=no", path] })
    .output();
  assertEquals([code, new TextDecoder().decode(stderr)], [0, ""]);
  await Deno.remove(folder, { recursive: true });
});

Deno.test("deploy/Containerfile brings the Deno that the tests ran with, and files that there are", async () => {
  const ci = await Deno.readTextFile(join(ROOT, ".ci/run"));
  assertEquals(/deno@[\d.]+/.exec(image)?.[0], /deno@[\d.]+/.exec(ci)?.[0]);
  assertEquals(
    namesIn(image, /^ENV (.*)$/gm).filter((name) => !VARIABLES.includes(name)).sort(),
    DENOS,
  );
  const cached = /deno cache --frozen (.*?) \\$/m.exec(image)?.[1]?.split(" ") ?? [];
  assertEquals(cached.length > 0, true);
  for (const path of cached) Deno.statSync(join(ROOT, path));
  const [, ...entry] = /^ENTRYPOINT (.*)$/m.exec(image)!;
  assertEquals(JSON.parse(entry[0]!).slice(-3), ["deno", "task", "start"]);
  // Each line is an instruction, goes on with one, or says something.
  const lines = image.replaceAll("\\\n", "").split("\n").filter((line) =>
    line !== "" && !line.startsWith("#")
  );
  const known = /^(FROM|RUN|ENV|WORKDIR|COPY|USER|EXPOSE|VOLUME|STOPSIGNAL|ENTRYPOINT) \S/;
  assertEquals(lines.filter((line) => !known.test(line)), []);
});

function isThere(program: string): boolean {
  const { success } = new Deno.Command("/bin/sh", { args: ["-c", `command -v ${program}`], stdout: "null" })
    .outputSync();
  if (!success) console.warn(`Skipped: there is no ${program}.`);
  return success;
}
