import type { Agent } from "../agent.ts";
import { opencode } from "./opencode.ts";

/** Kilo, a fork of opencode. */
export const KILO: Agent = opencode("kilo", "KILO");
