// deno-lint-ignore-file no-console -- It prints the errors.
/**
 * Checks a folder's packages with publint and "are the types wrong". Suggestions are errors too. Run by the
 * gate `packed`.
 */
import { checkPackage, createPackageFromTarballData, type Problem } from "@arethetypeswrong/core";
import { publint } from "publint";
import { formatMessage } from "publint/utils";

/** Resolution modes of unsupported Node versions: the packages are ES modules, found by `exports`. */
const PAST = ["node10", "node16-cjs"];

function isPast(problem: Problem): boolean {
  if ("resolutionKind" in problem) return PAST.includes(problem.resolutionKind);
  return "resolutionOption" in problem && PAST.includes(problem.resolutionOption);
}

async function faultsOf(path: string): Promise<readonly string[]> {
  const tarball = await Deno.readFile(path);
  const linted = await publint({ pack: { tarball: tarball.buffer }, strict: true });
  const checked = await checkPackage(createPackageFromTarballData(tarball));
  if (!checked.types) return ["it has no types"];
  return [
    ...linted.messages.map((message) => formatMessage(message, linted.pkg, { color: false }) ?? message.code),
    ...checked.problems.filter((problem) => !isPast(problem)).map((problem) =>
      JSON.stringify(problem, (key, value) => key === "trace" ? undefined : value)
    ),
  ];
}

const [folder = "."] = Deno.args;
let isFaulty = false;
for (const { name } of [...Deno.readDirSync(folder)].filter(({ name }) => name.endsWith(".tgz"))) {
  for (const fault of await faultsOf(`${folder}/${name}`)) {
    isFaulty = true;
    console.error(`${name}: ${fault}`);
  }
}
if (isFaulty) Deno.exit(1);
