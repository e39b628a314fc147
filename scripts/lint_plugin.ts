export default { name: "tare", rules: {} };
