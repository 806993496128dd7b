"""Other tools' rules for breakdown, idle and overlap: one module a tool, pure functions of tables.

Each follows its tool's code to the letter, faults included, so that a figure seen elsewhere can be
told apart from ours. `account` holds what they share; `workbench.analysis.definitions` prints them.
"""
