"""The `llm` engine: language models behind OpenAI-compatible endpoints.

`models` reads the environment; `endpoint` sends requests and is the only
module that uses the `openai` package; `completion_stream` assembles streamed answers;
`tools` are what a model may call; `engine` loops over them. The package is an extra
(the extra ``llm``). It is loaded for the first turn that needs it.
"""
