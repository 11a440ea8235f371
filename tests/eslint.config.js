import js from "@eslint/js";
import globals from "globals";

export default [
  { ignores: ["**/node_modules/", ".venv/", "build/"] },
  js.configs.recommended,
  {
    files: ["src/**/assets/**/*.js", "tests/**/*.mjs"],
    languageOptions: { ecmaVersion: 2023, sourceType: "module", globals: { ...globals.browser } },
    rules: {
      "no-unused-vars": ["error", { argsIgnorePattern: "^_", ignoreRestSiblings: true }],
      eqeqeq: "error",
      "no-var": "error",
      "prefer-const": ["error", { destructuring: "all" }],
    },
  },
  {
    files: ["src/**/assets/**/*.js"],
    rules: {
      // What an agent wrote becomes markup in one place: dom.js says so itself.
      "no-restricted-properties": [
        "error",
        { property: "innerHTML", message: "Use setHtml of dom.js." },
        { property: "outerHTML", message: "Use setHtml of dom.js." },
        { property: "insertAdjacentHTML", message: "Use setHtml of dom.js." },
      ],
    },
  },
  { files: ["tests/**/*.mjs"], languageOptions: { globals: { ...globals.node } } },
  {
    files: ["**/*.cjs"],
    languageOptions: { sourceType: "commonjs", globals: { ...globals.node } },
  },
];
