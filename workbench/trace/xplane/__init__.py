"""XLA's XPlane (`*.xplane.pb`), as JAX and TensorFlow write it."""

from workbench.trace.xplane.read import read

__all__ = ["read"]
