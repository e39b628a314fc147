import { runDeno } from "../consumer.ts";

export interface Coverage {
  /** Reports in the format of `deno coverage --lcov`. */
  readonly lcov: string;
  readonly faults: readonly string[];
}

/**
 * Reads the coverage in the folders of `folder` of programs in `root`, from Deno and browsers: each suite has its own,
 * because the time of reading one grows faster than its files. Incomplete files of killed programs are removed, because
 * Deno would read none otherwise.
 */
export async function readCoverage(folder: string, root: string): Promise<Coverage> {
  let all: Coverage = { lcov: "", faults: [] };
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    if (!isDirectory) continue;
    const { lcov, faults } = await readSuite(`${folder}/${name}`, root);
    all = { lcov: all.lcov + lcov, faults: [...all.faults, ...faults] };
  }
  return all;
}

async function readSuite(folder: string, root: string): Promise<Coverage> {
  let browsers = "";
  for await (const { name } of Deno.readDir(folder)) {
    const path = `${folder}/${name}`;
    if (name.endsWith(".json") && !isJson(await Deno.readTextFile(path))) await Deno.remove(path);
    if (name.endsWith(".lcov")) browsers += await Deno.readTextFile(path);
  }
  const read = () => runDeno(["coverage", "--lcov", folder], { cwd: root });
  let { ok, output } = await read();
  // Recompiles modules that were compiled with other options since.
  const recompiled = [...output.matchAll(LOST)].map(([, url = ""]) => url);
  if (recompiled.length > 0) {
    await runDeno(["cache", ...recompiled], { cwd: root });
    ({ ok, output } = await read());
  }
  const lost = [...output.matchAll(LOST)].map(([line]) => line);
  return { lcov: output + browsers, faults: ok ? lost : [output] };
}

const LOST = /^Missing transpiled source code for: "([^"]+)".*/gm;

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
