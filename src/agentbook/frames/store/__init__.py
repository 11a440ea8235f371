"""The local store: the events of sessions as Parquet files, updated incrementally."""
