import { assertEquals, assertRejects } from "@std/assert";
import { toFileUrl } from "@std/path";
import { startMarked } from "./marked_program.ts";

Deno.test("startMarked() reports functions that ran since the last call, only in the given folder", async () => {
  const folder = await Deno.makeTempDir();
  const files = {
    "ours/program.ts": `
import { answer, never } from "./answer.ts";
export class Unused { method() { return never(); } }
const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => answer(request));
console.log(\`The program listens on http://127.0.0.1:\${server.addr.port}\`);
`,
    "ours/answer.ts": `
import { other } from "../theirs/other.ts";
const greeting = (name: string): string => "Hello " + name;
export const never = (): string => greeting("you");
export async function answer(request: Request): Promise<Response> {
  if (request.method === "POST") await import("./late.ts");
  return new Response(request.method === "PUT" ? greeting(other()) : "");
}
`,
    "ours/late.ts": `export const late = ["a"].map((text) => text + "b");\n`,
    "theirs/other.ts": `export const other = (): string => "you";\n`,
  };
  for (const name of ["ours", "theirs"]) await Deno.mkdir(`${folder}/${name}`);
  for (const [path, text] of Object.entries(files)) await Deno.writeTextFile(`${folder}/${path}`, text);
  {
    await using program = await startMarked(["--no-lock", "--no-config", `${folder}/ours/program.ts`], {
      folder: toFileUrl(`${folder}/ours/`),
    });
    const entered = async (method: string) => {
      await program.entered();
      await (await fetch(program.url, { method })).text();
      return (await program.entered()).map(({ path, name }) => `${path} ${name}`).sort();
    };
    assertEquals(await entered("GET"), ["answer.ts answer", "program.ts "]);
    assertEquals(await entered("PUT"), ["answer.ts answer", "answer.ts greeting", "program.ts "]);
    assertEquals(await entered("GET"), ["answer.ts answer", "program.ts "]);
    assertEquals(await entered("POST"), ["answer.ts answer", "late.ts ", "program.ts "]);
  }
  await Deno.remove(folder, { recursive: true });
});

Deno.test("startMarked() throws with the output of a program that ends before it listens", async () => {
  const folder = await Deno.makeTempDir();
  await Deno.writeTextFile(`${folder}/program.ts`, `console.log("It rains."); Deno.exit(1);\n`);
  await assertRejects(
    () => startMarked(["--no-lock", "--no-config", `${folder}/program.ts`], { folder: toFileUrl(folder) }),
    Error,
    "The program ended before it listened: It rains.",
  );
  await Deno.remove(folder, { recursive: true });
});
