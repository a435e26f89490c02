"""The command line: rocketpy up, namesrv, broker, controller, bench, doctor, version; mqnamesrv, mqbroker and mqcontroller as aliases."""
