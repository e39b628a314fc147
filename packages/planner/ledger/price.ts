export { callCost, promptCost, type Rates } from "./ledger.ts";
