"""The command line: rocketpy up, namesrv, broker, bench, doctor, version; mqnamesrv and mqbroker as aliases."""
