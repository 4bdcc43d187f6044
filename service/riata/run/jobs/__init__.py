"""Work that outlives its request: one table of jobs, which survives a restart or says that it did not."""
