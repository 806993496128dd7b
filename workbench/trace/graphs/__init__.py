"""Execution graphs: what ran and what it waited for, without when (PyTorch and Chakra).

They become `ops` without times, `dependencies` and `collectives`; docs/adr says why.
"""
