"""Functional decision trees: splits on curves by representative curves (Balakrishnan 2007, chapter 5). `lab` grows them."""
