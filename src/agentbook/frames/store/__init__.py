"""The local store: sessions' events as plain Parquet, kept up to date by fetching only what is new."""
