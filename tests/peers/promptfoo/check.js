module.exports = (output, context) => ({pass: output === "Hello", score: 0.75, reason: `asked ${context.vars.q}`});
module.exports.named = async (output) => output.length / 10;
module.exports.broken = () => { throw new Error("broken") };
module.exports.nothing = () => undefined;
