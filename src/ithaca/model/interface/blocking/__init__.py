"""The public interface, synchronous: `log`, `records`, `parts`, `admin`, generated from `interface.awaited`."""
