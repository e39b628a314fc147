import { parseArgs, type ParseArgsConfig } from "node:util";

/**
 * The options and words behind a command.
 *
 * @throws {RangeError} that says what is wrong with them, and which options there are.
 */
export function commandLine<const Config extends ParseArgsConfig>(
  config: Config,
): ReturnType<typeof parseArgs<Config>> {
  try {
    return parseArgs(config);
  } catch (error) {
    // Behind its first sentence Node advises how to send the option as a word.
    const [wrong = ""] = (error as Error).message.split(/\. |\n/, 1);
    const known = Object.keys(config.options ?? {}).map((name) => `--${name}`).join(", ");
    throw new RangeError(`Cannot read the command: ${wrong}. Its options are ${known}.`, { cause: error });
  }
}
