import type { Agent } from "../agent.ts";
import { opencode } from "./opencode.ts";

/** Kilo, which is made from opencode. */
export const KILO: Agent = opencode("kilo", "KILO");
