"""Vector operations for kernels: each compiled to vector instructions, each with an interpreted form of the same bits."""
