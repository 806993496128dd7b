"""What the memory of a device held: torch's snapshots and memory timelines."""
