/**
 * What agent server and gateway tell of themselves by OpenTelemetry: spans and metrics by the semantic conventions for
 * generative AI, and figures of our own, whose names begin with `tare.`. It goes by `@opentelemetry/api` alone: where
 * nobody has set up an exporter nothing is made, and nothing leaves.
 *
 * @module
 */
export { errorTypeOf, inThisTrace, inTraceOf, type Operation, withoutTrace } from "./operation.ts";
export { type Chat, Telemetry } from "./telemetry.ts";
