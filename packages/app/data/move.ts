/**
 * Moves all sessions from the data folder into a PostgreSQL database, or back: `deno task move`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { join, resolve } from "@std/path";
import { commandLine, HOME_VARIABLES, isFile, printableText, STORE_FILE, withElapsed } from "@tare/cli/parts";
import { StoreError } from "@tare/session";
import { copyContents, type StoreContents } from "@tare/session";
import { openFileContents } from "@tare/session/sqlite";
import { readSettings, settingsFiles } from "../settings/settings.ts";
import { openBucket } from "./open_data.ts";

const HELP = `Moves all sessions from the data folder into the PostgreSQL database that TARE_DATABASE names:

  deno task move [--back] [--workspace FOLDER] [--data FOLDER]

First stop all servers of the folder and the database. The copy is verified; the file is renamed to
tare.db.moved. If it is interrupted, nothing is lost: run it again. Texts in the bucket of TARE_ARCHIVE are read
from there.

  --back              From the database into the data folder. The database stays unchanged.
  --workspace, --data As passed to the server. Default: from TARE_WORKSPACE and TARE_DATA`;

const VARIABLES = [
  ...["INIT_CWD", ...HOME_VARIABLES, "TARE_WORKSPACE", "TARE_DATA", "TARE_DATABASE", "TARE_ARCHIVE"],
  ...["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"],
];

try {
  const { values: { help, back = false, ...given } } = commandLine({
    options: {
      workspace: { type: "string" },
      data: { type: "string" },
      back: { type: "boolean" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (help) {
    console.error(HELP);
    Deno.exit(0);
  }
  const args = Object.entries(given).map(([name, value]) => `--${name}=${value}`);
  const environment = Object.fromEntries(VARIABLES.map((name) => [name, Deno.env.get(name)]));
  const files = settingsFiles(args, environment).map(({ path, values }) => ({
    path,
    values: Object.fromEntries(Object.entries(values).filter(([name]) => VARIABLES.includes(name))),
  }));
  console.log(printableText(await move(readSettings(args, environment, files), back)));
} catch (error) {
  // Expected errors are printed without a stack.
  const isSentence = error instanceof RangeError || error instanceof StoreError || error instanceof TypeError;
  if (!isSentence) throw error;
  console.error(printableText(error.message));
  Deno.exit(1);
}

/** Moves the sessions and returns a summary. */
async function move(
  { database, data, ...bucket }: ReturnType<typeof readSettings>,
  isBack: boolean,
): Promise<string> {
  if (database === undefined) {
    throw new RangeError(
      "Cannot move sessions: TARE_DATABASE isn't set. Set it to the database's address.",
    );
  }
  const { openPostgresContents } = await import("@tare/session/postgres");
  const path = join(resolve(data), STORE_FILE);
  if (!isBack && !isFile(path) && !isFile(`${path}-wal`)) {
    const before = isFile(`${path}.moved`) ? `; those in ${path}.moved were already moved` : "";
    throw new RangeError(`Cannot move sessions: there are none in ${resolve(data)}${before}.`);
  }
  const opened: StoreContents[] = [];
  try {
    const file = openFileContents(path);
    opened.push(file);
    if (!isBack && await file.isEmpty()) {
      throw new RangeError(`Cannot move sessions: there are none in ${resolve(data)}.`);
    }
    const objects = await openBucket(bucket);
    const there = await openPostgresContents(database.url, { name: database.label, objects });
    opened.push(there);
    const [from, to] = isBack ? [there, file] : [file, there];
    const { counts } = await withElapsed("Moving and verifying", () => copyContents(from, to));
    for (const contents of opened.splice(0)) await contents.close();
    // A server that is started without the database would continue it.
    if (!isBack) await Deno.rename(path, `${path}.moved`);
    const what = Object.entries(counts).map(([name, count]) => `${count} ${name}`).join(", ");
    const left = isBack ? `${database.label} is unchanged` : `the file was renamed to ${path}.moved`;
    return `Moved ${what} to ${to.name} and verified the copy; ${left}.`;
  } finally {
    for (const contents of opened) await contents.close();
  }
}
