import type { Tool } from "@tare/messages";
import {
  type Archive,
  RECALL_TOOL,
  type RecallOptions,
  recallOriginal,
  type RecallRequest,
} from "@tare/prune";

/** `recall`: reads the original of an elided result back from the archive; options bound the answer. */
export function recallTool(archive: Archive, options: RecallOptions = {}): Tool {
  return {
    definition: RECALL_TOOL,
    stance: "rederivable",
    // Whoever runs a tool has validated the arguments against its definition.
    run: (args) => recallOriginal(archive, args as Pick<RecallRequest, keyof RecallRequest>, options),
  };
}
