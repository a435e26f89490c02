"""Jobs over topics and store directories. Each is a module with a main; `rocketpy spark NAME` runs it, spark-submit does too."""
