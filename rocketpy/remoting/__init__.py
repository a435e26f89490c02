"""The control plane's side of the remoting protocol: codes, headers, bodies, the asyncio client and the service over the native server."""
