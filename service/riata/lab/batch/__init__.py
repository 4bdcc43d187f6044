"""Batch optima of the learners' objective: solvers that pass over stored rows until a certificate says how near they are."""
