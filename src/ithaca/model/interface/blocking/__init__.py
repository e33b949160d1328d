"""The public interface, synchronous: generated from `interface.awaited`, which lists the modules."""
