import { assertEquals, assertStringIncludes } from "@std/assert";
import { runDeno } from "../consumer.ts";
import { readCoverage } from "./read_coverage.ts";

Deno.test("readCoverage() reads coverage of Deno and browsers, and ignores incomplete files", async () => {
  const root = await Deno.makeTempDir();
  const all = `${root}/coverage`;
  const folder = `${all}/suite`;
  await Deno.writeTextFile(`${root}/deno.json`, "{}");
  await Deno.writeTextFile(`${root}/code.ts`, "export const one = () => 1;\nexport const two = () => 2;\n");
  await Deno.writeTextFile(`${root}/run.ts`, 'import { one } from "./code.ts";\none();\n');
  await runDeno(["run", "run.ts"], { cwd: root, env: { DENO_COVERAGE_DIR: folder } });
  await Deno.writeTextFile(`${folder}/empty.json`, "");
  await Deno.writeTextFile(`${folder}/half.json`, '{"scriptId":"1","url":"file:///code.ts","functions":[');
  await Deno.writeTextFile(`${folder}/page.lcov`, "SF:/page.ts\nDA:1,1\nend_of_record\n");
  await Deno.writeTextFile(`${all}/of_the_task.json`, "");

  const { lcov, faults } = await readCoverage(all, root);
  assertEquals(faults, []);
  assertStringIncludes(lcov, "code.ts\nFN:1,one\nFN:2,two\n");
  assertStringIncludes(lcov, "FNDA:1,one\nFNDA:0,two\n");
  assertStringIncludes(lcov, "SF:/page.ts\n");

  await Deno.writeTextFile(`${folder}/other.json`, "{}");
  const [fault] = (await readCoverage(all, root)).faults;
  assertStringIncludes(`${fault}`, "other.json");
  await Deno.remove(root, { recursive: true });
});
