"""The `llm` engine: a language model behind any OpenAI-compatible endpoint.

`settings` reads the environment; `endpoint` sends requests and is the only module that
uses the `openai` package; `completion_stream` assembles streamed answers; `tools` are
what a model may call; `engine` loops over them. The package is an extra
(``pip install 'agentbook[llm]'``) and is loaded with the first turn that needs it.
"""

from .engine import LlmEngine
from .settings import Settings

__all__ = ["LlmEngine", "Settings"]
