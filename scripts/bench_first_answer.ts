/**
 * How soon `tare` answers in a folder where no server runs yet: it is typed at a pseudo-terminal, in a new folder with a new
 * data folder, in front of a scripted provider that answers at once. Linux alone.
 *
 *   deno task bench:first-answer [ROUNDS]
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { fromFileUrl, join } from "@std/path";
import { openTerminal } from "../tests/pseudo_terminal.ts";
import { scriptedProvider } from "../tests/scripted_provider.ts";

const TARE = fromFileUrl(new URL("../packages/app/tare.ts", import.meta.url));

const rounds = Number(Deno.args[0] ?? 5);
const provider = scriptedProvider(({ asked }) => `You said ${asked}.`);
const rows: { readonly prompt: number; readonly answer: number; readonly again: number }[] = [];
for (let round = 0; round < rounds; round++) {
  const folder = await Deno.makeTempDir();
  const cwd = join(folder, "project");
  await Deno.mkdir(cwd);
  const env = { ...provider.env, XDG_DATA_HOME: join(folder, "data"), NO_COLOR: "1" };
  const talk = async () => {
    const began = performance.now();
    const tare = openTerminal([Deno.execPath(), "run", "-A", TARE], { cwd, env });
    await tare.shows(/› \S*$/);
    const prompt = performance.now() - began;
    tare.type("hello\r");
    await tare.shows(/You said hello\./);
    const answer = performance.now() - began;
    tare.type("\x04");
    await tare.ended;
    return { prompt, answer };
  };
  const first = await talk();
  const { answer: again } = await talk();
  rows.push({ ...first, again });
  await new Deno.Command(Deno.execPath(), { args: ["run", "-A", TARE, "stop"], cwd, env }).output();
  await Deno.remove(folder, { recursive: true });
}
await provider.close();

const middle = (name: keyof typeof rows[number]) => {
  const sorted = rows.map((row) => row[name]).sort((a, b) => a - b);
  const told = (at: number) => `${(sorted[at]! / 1000).toFixed(2)} s`;
  return `median ${told(Math.floor(sorted.length / 2))}, at most ${told(sorted.length - 1)}`;
};
console.log(`From the command's start, ${rounds} new folders:
  the prompt is there   ${middle("prompt")}
  the first answer      ${middle("answer")}
  once the server runs  ${middle("again")}`);
