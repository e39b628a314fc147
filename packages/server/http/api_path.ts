/** Path of Tare's own API, which no provider uses. */
export const API_PATH = "/tare/v1";
