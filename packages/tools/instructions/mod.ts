/**
 * Files that instruct agents: those of a project and of the user, and skills. Not part of the public API: names and
 * behavior may change in any release.
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
