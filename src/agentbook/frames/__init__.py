"""DataFrames: parsing, loading, analyses, charts, the local store and Dask."""

import warnings

import pandas as pd

# pip replaces pandas by an older one for another package without a word.
if int(pd.__version__.partition(".")[0]) < 3:
    warnings.warn(
        f"agentbook needs pandas 3.0 or newer, and this is {pd.__version__}: some calls fail or give different results. "
        "Install it with pip install 'pandas>=3.0', and restart the kernel.",
        stacklevel=2,
    )
