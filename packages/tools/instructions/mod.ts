/**
 * Instruction files of projects and users, and skills. Internal API, without stability guarantees.
 *
 * @module
 */
export {
  type DescribedEnvironment,
  type DescribedFile,
  environmentDescription,
  type EnvironmentOptions,
  environmentText,
  filesOf,
  findPlaces,
  type FoundFile,
  type FrontMatter,
  inspectEnvironment,
  type InstructionPlaces,
  readFound,
  readFrontMatter,
  realPath,
  skillsOutside,
  skillTool,
  type WorkspaceDescription,
} from "./environment.ts";
