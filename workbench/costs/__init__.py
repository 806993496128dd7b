"""Costs: FLOPs and bytes of operators, and the roofs of a device."""
