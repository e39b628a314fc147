/**
 * Shows the settings of a folder with their sources, or stores some: `tare settings`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { flag, printableText, runCommandLine, settingsPaths, storeSettings } from "@tare/cli/parts";
import { faultOfSetting, listSettings, settingsFiles, VARIABLES } from "./settings.ts";

await runCommandLine({
  call: "tare settings",
  summary: "Shows the settings for this folder and where each comes from, or stores some",
  usage: ["", "[--folder] NAME=VALUE | NAME …"],
  details: `  NAME=VALUE  Stores a setting by the name of its variable; an empty value removes it
  NAME        Asks for the value, so that a key doesn't enter the shell's history`,
  options: { folder: flag("Store for the current folder only. Default: for all of your folders") },
  notes: "Variables of the environment and flags of tare start override stored settings.",
  hasWords: true,
}, async ({ values, positionals }) => {
  const environment = Object.fromEntries(VARIABLES.map((name) => [name, Deno.env.get(name)]));
  const paths = settingsPaths(environment);
  if (positionals.length === 0) {
    const rows = listSettings(environment, settingsFiles([], environment));
    const width = (at: 0 | 1) => Math.max(...rows.map((row) => row[at].length));
    for (const [name, value, source] of rows) {
      console.log(printableText(`${name.padEnd(width(0))}  ${value.padEnd(width(1))}  ${source}`));
    }
    return 0;
  }
  if (paths === undefined) throw new Error("Cannot store settings: HOME isn't set.");
  const pairs = positionals.map((word): [string, string] => {
    const [, name = word, given] = /^([^=]+)=(.*)$/s.exec(word) ?? [];
    const value = given ?? prompt(printableText(`${name}:`))?.trim() ?? "";
    if (value === "" && given === undefined) throw new Error(`Cannot store ${name}: it has no value.`);
    const fault = faultOfSetting(name, value, environment.INIT_CWD ?? ".");
    if (fault !== undefined) throw new Error(`Cannot store ${name}: ${fault}`);
    return [name, value];
  });
  const path = values.folder ? paths.folder : paths.user;
  await storeSettings(path, Object.fromEntries(pairs));
  console.log(printableText(`Stored in ${path}.`));
  return 0;
});
