"""Jars of other people, from Maven Central through Spark's resolver: it comes with Spark, and keeps what it fetched."""

from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyspark
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from ithaca.bench.children import start_child
from ithaca.cluster.ports import LOOPBACK
from ithaca.model.errors import Unavailable

FETCH_TIMEOUT_S = 900.0
_FROM_SPARK: Final = ("scala-library", "slf4j-api", "log4j-api", "log4j-core", "log4j-1.2-api", "log4j-slf4j2-impl")
"""What a server needs besides, of the jars that come with Spark."""
SHIPPED_TOO: Final = ("org.slf4j:slf4j-api",)
"""What a server would bring along in an older version, which hides the one that writes what the server says."""


def fetch_jars(packages: Sequence[str]) -> tuple[Path, list[Path]]:
    """Java itself, and the jars of the packages with all that they need; whatever Spark needs is gone afterwards."""
    with ExitStack() as stack:
        found: tuple[Path, list[Path]] = start_child(stack, "resolver", _fetch, packages).answer(FETCH_TIMEOUT_S)
        return found


def _fetch(parent: Connection, packages: Sequence[str]) -> None:
    with TemporaryDirectory() as directory:
        builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        spark = builder.config("spark.driver.bindAddress", LOOPBACK).config("spark.driver.host", LOOPBACK).getOrCreate()
        try:
            jars = resolve(spark, Path(directory), ",".join(packages), excluded=SHIPPED_TOO)
            java = Path(str(jvm_of(spark).java.lang.System.getProperty("java.home"))) / "bin" / "java"
        finally:
            spark.stop()
    parent.send((java, [*jars, *shipped_jars()]))


def resolve(spark: SparkSession, directory: Path, package: str, excluded: tuple[str, ...]) -> list[Path]:
    """The jars of a package and of what it needs, fetched where they are not in Spark's cache yet."""
    jvm, conf = jvm_of(spark), spark.sparkContext.getConf()
    submit = getattr(getattr(jvm.org.apache.spark.deploy, "SparkSubmit$"), "MODULE$")  # whose output the resolver uses
    usual = submit.printStream()
    getattr(submit, "printStream_$eq")(jvm.java.io.PrintStream(str(directory / "resolver.txt")))
    try:
        found = jvm.org.apache.spark.util.DependencyUtils.resolveMavenDependencies(
            True,
            ",".join(excluded),
            package,
            conf.get("spark.jars.repositories"),
            conf.get("spark.jars.ivy"),
            jvm.scala.Option.apply(conf.get("spark.jars.ivySettings")),
        )
    except Py4JJavaError as error:
        raise Unavailable(
            f"{package} and what it needs could not be fetched from Maven Central "
            f"({error.java_exception.getMessage()}): see that it can be reached, or leave it out"
        ) from None
    finally:
        getattr(submit, "printStream_$eq")(usual)
    return [Path(line) for line in str(found.mkString("\n")).splitlines()]


def jvm_of(spark: SparkSession) -> Any:
    """Java's side of a session."""
    return spark.sparkContext._jvm


def shipped_jars() -> list[Path]:
    """Jars that Spark brings along, which the resolver therefore leaves out."""
    shipped = Path(pyspark.__file__).parent / "jars"
    return [jar for name in _FROM_SPARK for jar in sorted(shipped.glob(f"{name}-[0-9]*.jar"))]
