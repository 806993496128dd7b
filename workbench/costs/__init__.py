"""FLOPs and bytes per operator, the hardware table, and measured roofs."""

from workbench.costs.models import operators

__all__ = ["operators"]
