"""TLS of connections: `contexts` reads the files, and reads them again when they change; `layer` is what stands between
the bytes of a socket and those of frames.
"""
