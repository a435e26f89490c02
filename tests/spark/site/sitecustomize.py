"""Spark puts PySpark's zip first on the path of every Python it starts, and from a zip each of them compiles every module again: a second
of CPU time a process. The installed package is the same and has them compiled.
"""

import sys

sys.path[:] = [place for place in sys.path if not place.endswith("pyspark.zip")]
