"""Memory by address: reads and writes that numba does not check."""
