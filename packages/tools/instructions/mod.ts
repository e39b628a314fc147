/**
 * Instruction files of projects and users, and skills. Internal API, without stability guarantees.
 *
 * @module
 */
export {
  filesOf,
  findPlaces,
  type FoundFile,
  type FrontMatter,
  type InstructionPlaces,
  lookAround,
  readFound,
  readFrontMatter,
  realPath,
  skillsOutside,
  skillTool,
  type ToldFile,
  type ToldWorkplace,
  workplaceOf,
  type WorkplaceOptions,
  workplaceText,
  type WorkspaceDescription,
} from "./workplace.ts";
