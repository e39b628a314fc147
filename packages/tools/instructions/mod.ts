/**
 * Files that instruct agents: those of a project and of the user, and skills. Not part of the public API: names and
 * behavior may change in any release.
 *
 * @module
 */
export { type FoundFile, readFound } from "./found_file.ts";
export { type FrontMatter, readFrontMatter } from "./front_matter.ts";
export { realPath } from "./real_path.ts";
export { skillTool } from "./skill_tool.ts";
export {
  filesOf,
  findPlaces,
  type InstructionPlaces,
  lookAround,
  skillsOutside,
  type ToldFile,
  type ToldWorkplace,
  workplaceOf,
  type WorkplaceOptions,
  workplaceText,
  type WorkspaceDescription,
} from "./workplace.ts";
