"""What runs beside the training: the standard library and torch alone, by relative imports.

It is loaded by `capture/worker.py` in any Python from 3.10 on, so nothing here may import the
rest of the project, except `workload`, which needs the spec and the model of its workload.
"""
