/** Path that all routes of Tare's own API are below. No provider has it, so that none of theirs is hidden. */
export const API_PATH = "/tare/v1";
