export default (output) => output.startsWith("H");
export const named = (output, context) => context.vars.q === output && 0.5;
