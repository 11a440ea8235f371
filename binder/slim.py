"""Removes what no notebook uses from the environment that runs this.

As images often do: tests, headers, source maps. Besides, of Arrow the clients of two
network services, and the languages of Babel other than English. postBuild runs this in
the step that installs the packages: files that a later step deletes stay in the layers
of the image.
"""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

PATTERNS = (
    # tests
    "dask/**/tests",
    "numpy/**/tests",
    "pandas/tests",
    "pyarrow/tests",
    "pyarrow/_pyarrow_cpp_tests*",
    # what compilers read: headers, sources, and libraries by names to link them with
    "debugpy/**/*.c",
    "numpy/_core/include",
    "pyarrow/include*",
    "pyarrow/src",
    "pyarrow/*.p[xy][dxi]",
    "pyarrow/libarrow*.so",
    "pyarrow/libarrow*.so.*.*",
    # what a browser's debugger reads
    "**/static/**/*.map",
    # Arrow's clients of Flight and S3, which pyarrow imports only if they are there
    "pyarrow/*flight*.so*",
    "pyarrow/_s3fs*.so",
    "pyarrow/libarrow_s3*",
    # `jsonschema` checks one format with it, if it is there. Nothing here has that
    # format, and its grammar takes 16 MB of the memory of JupyterLab's server.
    "rfc3987_syntax*",
    # dates and numbers in languages other than English
    "babel/locale-data/[!er]*",
    "babel/locale-data/e[!n]*",
    "babel/locale-data/r[!o]*",
    "babel/locale-data/ro[!o]*",
)


def main() -> None:
    """Remove the files and folders, and print how much that is."""
    packages = Path(sysconfig.get_path("purelib"))
    removed = 0
    for pattern in PATTERNS:
        for path in list(packages.glob(pattern)):
            if path.is_dir():
                removed += sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
                shutil.rmtree(path)
            elif path.exists():
                removed += path.stat().st_size
                path.unlink()
    print(f"Removed {removed / 1e6:.0f} MB.")


if __name__ == "__main__":
    main()
