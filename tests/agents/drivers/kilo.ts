import type { Agent } from "../agent.ts";
import { opencode } from "./opencode.ts";

export const KILO: Agent = opencode("kilo", "KILO");
