"""Traces written for others: Chrome JSON that Perfetto loads, a folder of Parquet, a cut."""
