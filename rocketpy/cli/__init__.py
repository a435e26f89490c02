"""The command line: `rocketpy COMMAND` (app.py), and mqnamesrv, mqbroker, mqcontroller, mqproxy and mqadmin (entry.py)."""
