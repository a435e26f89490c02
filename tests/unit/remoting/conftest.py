try:
    import rocketpy._core.remoting  # noqa: F401
except ImportError:
    from tests.unit.remoting import codec_shim

    codec_shim.install()
