"""Notes that people keep with a recording: what they are, where they lie, how they are merged."""
