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
  const { ok, output } = await runDeno(["coverage", "--lcov", folder], { cwd: root });
  // Compiled anew with other options since it ran: what ran of it can't be told any more.
  const lost = output.match(/^Missing transpiled source code for: .*/gm) ?? [];
  return { lcov: output + browsers, faults: ok ? lost : [output] };
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
