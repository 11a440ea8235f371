"""A server of S3's protocol on this machine: moto's."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """The address of an empty bucket; child processes find it too."""
    moto = pytest.importorskip("moto.server", reason="moto's server is not installed")
    s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {"ENDPOINT_URL": f"http://{host}:{port}", "ACCESS_KEY_ID": "id", "SECRET_ACCESS_KEY": "secret"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**settings, "DEFAULT_REGION": "us-east-1"}.items():
            patch.setenv(f"AWS_{name}", value)
        name = f"agentbook-{port}"  # the servers of a process share their buckets
        s3fs.S3FileSystem().mkdir(name)
        yield f"s3://{name}"
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()
