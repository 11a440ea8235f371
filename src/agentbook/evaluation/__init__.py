"""Variants, inputs, checks, judges, runs, statistics and files of evaluations.

The prompt lab, `agentbook eval` and the pytest fixture are made of it; it imports no
widgets. An experiment is the same in Python, in the form and in a file.
"""
