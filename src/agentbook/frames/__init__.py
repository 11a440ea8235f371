"""DataFrames: parsing, loading, analyses, charts, the local store and Dask."""
