"""Dumps on HDFS: a name node and a data node of Hadoop on loopback, read by hdfs-native."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from hdfs_native import Client

from tests.support.store_trials import Store, StoreTrials, free_port, needed, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SETTINGS = {
    "dfs.webhdfs.enabled": "false",
    "dfs.replication": "1",
    "dfs.namenode.http-address": "127.0.0.1:0",
    "dfs.datanode.address": "127.0.0.1:0",
    "dfs.datanode.ipc.address": "127.0.0.1:0",
    "dfs.datanode.http.address": "127.0.0.1:0",
}
NODES = "org.apache.hadoop.hdfs.server"
OPENED = ("java.base/java.lang", "java.base/java.util", "java.base/sun.nio.ch")
"""Packages of Java into which this Hadoop, older than their walls, looks."""
LOGGING = """log4j.rootLogger=INFO,A
log4j.appender.A=org.apache.log4j.ConsoleAppender
log4j.appender.A.layout=org.apache.log4j.SimpleLayout
"""


def write_settings(folder: Path, port: int) -> None:
    for name in ("conf", "web/webapps/hdfs", "web/webapps/datanode"):
        (folder / name).mkdir(parents=True)
    (folder / "conf" / "log4j.properties").write_text(LOGGING)
    core = {"fs.defaultFS": f"hdfs://127.0.0.1:{port}", "hadoop.tmp.dir": str(folder / "data")}
    for name, settings in (("core", core), ("hdfs", SETTINGS)):
        entries = "".join(
            f"<property><name>{key}</name><value>{value}</value></property>"
            for key, value in settings.items()
        )
        text = f"<configuration>{entries}</configuration>"
        (folder / "conf" / f"{name}-site.xml").write_text(text)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("hdfs")
    port = free_port()
    write_settings(folder, port)
    java = ["java", "-Xmx256m", "-XX:+UseSerialGC", f"-Dhadoop.log.dir={folder}"]
    java += [f"--add-opens={package}=ALL-UNNAMED" for package in OPENED]
    java += ["-cp", f"{folder}/conf:{folder}/web:{needed('PADIFF_HADOOP_JARS')}/*"]
    name_node, data_node = f"{NODES}.namenode.NameNode", f"{NODES}.datanode.DataNode"
    subprocess.run([*java, name_node, "-format", "-force"], check=True, capture_output=True)
    with (
        served([*java, name_node], folder / "name.log", "NameNode RPC up"),
        served([*java, data_node], folder / "data.log", "Successfully sent block report"),
    ):
        client = Client(f"hdfs://127.0.0.1:{port}")  # who started the servers may do everything
        client.mkdirs("/mine", 0o700, create_parent=True)
        client.set_owner("/mine", "me", "me")
        yield Store(
            folder=folder,
            url=f"hdfs://127.0.0.1:{port}/mine/dumps",
            environment={"HADOOP_USER_NAME": "me"},
            stranger={"HADOOP_USER_NAME": "stranger"},
        )


class TestHdfs(StoreTrials):
    pass
