try:
    import rocketpy._core.remoting  # noqa: F401
except ImportError:
    import codec_shim

    codec_shim.install()
