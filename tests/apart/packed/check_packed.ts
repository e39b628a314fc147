// deno-lint-ignore-file no-console -- It prints what is wrong.
/**
 * Says what is wrong with the packages of a folder, as npm gets them: by publint and by "are the types wrong". Run by the
 * gate `packed`. Nothing may be: of both, suggestions count too.
 */
import { checkPackage, createPackageFromTarballData, type Problem } from "@arethetypeswrong/core";
import { publint } from "publint";
import { formatMessage } from "publint/utils";

/** What nobody uses who has a Node on which the packages run: they are modules alone, and `exports` says where these are. */
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
