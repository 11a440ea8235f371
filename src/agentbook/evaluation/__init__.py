"""Evaluation of replies: files, templates, asserts and scores. It knows no platform.

The format is a part of promptfoo's configuration, with the same pass and the same score
for each cell. Asking the agent is the prompt lab's business
(`agentbook.chat.prompt_lab`); here a reply is text, and a judge is a function.
"""
