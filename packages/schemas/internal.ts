/**
 * Shared parts of Tare's packages. Not part of the public API: names and behavior may change in any release.
 * @module
 */
export { CALL_TOOL, FIND_TOOLS, findTools, measureDeferral } from "./stand_ins.ts";
