"""From the bytes of a page to Arrow columns and DataFrames.

`schemas` says which columns a resource has, `reader` makes the columns of a page, and
`frame` joins the pages of a load.
"""

from .frame import to_frame

__all__ = ["to_frame"]
