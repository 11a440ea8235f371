"""Evaluation of replies: files, templates, asserts and scores, without a platform.

The format is a part of promptfoo's configuration, with the same pass and the same score
for each cell. The prompt lab asks the agent (`agentbook.chat.prompt_lab`); here a reply
is text, and a judge is a function.
"""
