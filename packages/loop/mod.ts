/** The agent loop over two ports (model, tool) and one hook (context). @module */
export * from "./context_hook.ts";
export * from "./event.ts";
export * from "./model.ts";
