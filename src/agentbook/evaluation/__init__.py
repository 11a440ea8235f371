"""Variants, inputs, checks, judges, runs, statistics and files of evaluations.

The prompt lab, `agentbook eval` and the pytest fixture are made of it; it imports no
widgets. The format of files is a part of promptfoo's configuration, with the same pass
and the same score for each cell.
"""
