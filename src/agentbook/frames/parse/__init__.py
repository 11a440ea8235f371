"""From the bytes of a page to Arrow columns and DataFrames.

`schemas` says which columns a resource has, `json_columns` reads the JSON of a page,
`columns` turns it into Arrow columns, and `frame` joins the pages of a load.
"""

from .frame import to_frame

__all__ = ["to_frame"]
