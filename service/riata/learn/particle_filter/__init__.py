"""1PFS, the one-pass particle filter with shrinkage (Balakrishnan 2007, chapter 2), for logistic regression."""
