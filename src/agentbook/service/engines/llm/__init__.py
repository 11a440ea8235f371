"""The `llm` engine: agents answered by a language model behind any OpenAI-compatible endpoint.

`settings` reads the environment, `endpoint` is the only place that touches the `openai` package, `chunks` puts a streamed answer
together, `tools` are what a model may call, `engine` is the loop over them. The package is an extra
(``pip install 'agentbook[llm]'``) and is loaded with the first turn that needs it.
"""

from .engine import LlmEngine
from .settings import Settings

__all__ = ["LlmEngine", "Settings"]
