import { runDeno } from "../consumer.ts";

/** What ran while tests ran. */
export interface Coverage {
  /** The reports, all of the form that `deno coverage --lcov` gives. */
  readonly lcov: string;
  /** A sentence for each reason for which they don't tell all. */
  readonly faults: readonly string[];
}

/**
 * Reads what programs of `root` wrote down in `folder` of what ran in them, in Deno and, as tests put it beside that, in browsers. A
 * file that isn't whole is of a program that was killed as it wrote it: it is removed, for Deno would read none then.
 */
export async function readCoverage(folder: string, root: string): Promise<Coverage> {
  let browsers = "";
  for await (const { name } of Deno.readDir(folder)) {
    const path = `${folder}/${name}`;
    if (name.endsWith(".json") && !isJson(await Deno.readTextFile(path))) await Deno.remove(path);
    if (name.endsWith(".lcov")) browsers += await Deno.readTextFile(path);
  }
  const read = () => runDeno(["coverage", "--lcov", folder], { cwd: root });
  let { ok, output } = await read();
  // A module that was compiled with other options since, by a configuration of its own, is compiled as it was again.
  const recompiled = [...output.matchAll(LOST)].map(([, url = ""]) => url);
  if (recompiled.length > 0) {
    await runDeno(["cache", ...recompiled], { cwd: root });
    ({ ok, output } = await read());
  }
  const lost = [...output.matchAll(LOST)].map(([line]) => line);
  return { lcov: output + browsers, faults: ok ? lost : [output] };
}

/** What Deno reports of a module whose compiled code isn't the one that ran. */
const LOST = /^Missing transpiled source code for: "([^"]+)".*/gm;

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
