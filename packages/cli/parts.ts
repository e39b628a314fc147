/**
 * Code that the server's process shares with the commands: finding a folder's server, reading options, and escaping
 * text for terminals.
 *
 * @module
 */
export { agentClient, serverAddress } from "./agent_client.ts";
export { listModels } from "./choose_model.ts";
export { commandLine, flag, runCommandLine } from "./command_line.ts";
export { launchers, whenLeft } from "./launchers.ts";
export { isDirectory, isFile, type OptionReader, wholeNumber } from "./option.ts";
export { HOME_VARIABLES } from "./server/data_directory.ts";
export { dataFolder, STORE_FILE } from "./server/data_folder.ts";
export { lastPortIn, OWNER_FILE } from "./server/find_owner_key.ts";
export { noteOwnerPort, ownerKey } from "./server/owner_key.ts";
export { callersFolder, forgetServer, noteServer, USUAL_PORT } from "./server/noted_server.ts";
export { freePlace, onlyPlace } from "./server/server_place.ts";
export {
  CLIENT_KEYS,
  faultOfStored,
  readSettingsFiles,
  settingsDigests,
  settingsPaths,
  type StoredVariables,
  storeSettings,
  withoutKeys,
  withSettingsFiles,
} from "./server/settings_files.ts";
export { printableText } from "./terminal/printable_text.ts";
export { withElapsed } from "./terminal/progress_bar.ts";
export { table } from "./terminal/table.ts";
