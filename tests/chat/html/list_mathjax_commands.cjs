// Writes mathjax_commands.json: every command and environment that MathJax's packages
// define, by the method that implements it. Run it again for another version:
//   npm install --no-save mathjax-full@VERSION
//   node list_mathjax_commands.cjs JUPYTERLAB_VERSION > mathjax_commands.json
const { readdirSync, statSync } = require("fs");
const { dirname, join } = require("path");

const root = dirname(require.resolve("mathjax-full/package.json"));
const load = (file) => require(join(root, "js/input/tex", file));
const { AllPackages } = load("AllPackages.js");
const { ConfigurationHandler } = load("Configuration.js");
const { MapHandler } = load("MapHandler.js");
load("require/RequireConfiguration.js"); // JupyterLab adds it to all packages

// The methods are anonymous: their names are those of the tables that hold them.
const methods = new Map();
for (const folder of readdirSync(join(root, "js/input/tex")).sort()) {
  const path = join(root, "js/input/tex", folder);
  if (!statSync(path).isDirectory()) continue;
  for (const file of readdirSync(path)) {
    if (!/(Methods|Configuration|Mappings)\.js$/.test(file)) continue;
    for (const table of Object.values(load(join(folder, file))))
      if (table && typeof table === "object")
        for (const [name, method] of Object.entries(table))
          if (typeof method === "function" && !methods.has(method)) methods.set(method, name);
  }
}

const commands = {};
const environments = new Set();
for (const name of [...AllPackages, "require"]) {
  const { handler } = ConfigurationHandler.get(name);
  for (const kind of ["macro", "delimiter", "environment"])
    for (const each of handler[kind] || []) {
      const map = MapHandler.getMap(each);
      for (const [key, symbol] of map.map || []) {
        if (kind === "environment") environments.add(key);
        const command = key.replace(/^\\/, "");
        if (kind === "environment" || !/^[A-Za-z]+$/.test(command)) continue; // no names of one sign
        const method = symbol.func ? methods.get(symbol.func) || symbol.func.name : map.constructor.name;
        (commands[method || "mhchem"] ||= new Set()).add(command);
      }
    }
}
const sorted = Object.keys(commands)
  .sort()
  .map((method) => [method, [...commands[method]].sort().join(" ")]);
const { version } = require("mathjax-full/package.json");
const listed = { mathjax: version, jupyterlab: process.argv[2], environments: [...environments].sort().join(" ") };
console.log(JSON.stringify({ ...listed, commands: Object.fromEntries(sorted) }));
