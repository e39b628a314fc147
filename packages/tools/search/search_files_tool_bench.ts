import { dirname } from "@std/path";
import { searchFilesTool } from "./search_files_tool.ts";
import { callOk, makeWorkspace } from "../fixture_test.ts";

const line = (at: number) =>
  `export const value${at} = compute(${at * 7}, "some text of usual length", options);`;
const text = Array.from({ length: 200 }, (_, at) => line(at)).join("\n");
const ws = await makeWorkspace(
  Object.fromEntries(Array.from({ length: 1000 }, (_, at) => [`src/${at % 20}/file${at}.ts`, text])),
);
const search = searchFilesTool(ws.root);
globalThis.addEventListener("unload", () => Deno.removeSync(dirname(ws.root), { recursive: true }));

const group = "1,000 files, 16 MB";
for (
  const [name, pattern] of [
    ["literal", "not there"],
    ["alternatives", "class|interface|function"],
    ["character classes", "[A-Z][a-z]+Error\\b"],
    ["all lines", "^"],
  ] as const
) {
  Deno.bench(name, { group }, async () => void await callOk(search, { pattern, output: "count" }));
}
