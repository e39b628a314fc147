/**
 * How long an undo of a turn that changed 200 files takes, and what a command costs more because its workspace is watched.
 *
 * @module
 */
import { makeWorkspace } from "../fixture_test.ts";
import { inTurn, keep } from "./fixture_test.ts";

const CHANGED = 200;
const ALL = 5_000;

const path = (index: number) => `folder${index % 100}/file${index}.ts`;
const text = (index: number) => `export const line = ${index};\n`.repeat(150);
const ws = await makeWorkspace(
  Object.fromEntries(Array.from({ length: ALL }, (_, index) => [path(index), text(index)])),
);
const checkpoints = keep(ws);
await inTurn(checkpoints, 1, async () => {
  for (let index = 0; index < CHANGED; index++) await Deno.writeTextFile(ws.at(path(index)), text(index + 1));
});

Deno.bench(`undo of a turn that changed ${CHANGED} files of ${ALL}`, { n: 5, warmup: 1 }, async (bench) => {
  bench.start();
  await checkpoints.undo("one");
  bench.end();
  await checkpoints.redo("one");
});

Deno.bench(`a command in a workspace of ${ALL} files`, { n: 5, warmup: 1 }, async () => {
  await inTurn(checkpoints, 2, () => Promise.resolve());
});

Deno.bench(`the first command in a workspace of ${ALL} files`, { n: 3, warmup: 1 }, async (bench) => {
  const folder = await Deno.makeTempDir({ dir: ws.outside });
  const fresh = keep(ws, { folder });
  bench.start();
  await inTurn(fresh, 1, () => Promise.resolve());
  bench.end();
  await fresh.close();
});

addEventListener("unload", () => Deno.removeSync(ws.outside.replace(/outside$/, ""), { recursive: true }));
