"""The Taylor sketch (Balakrishnan and Madigan 2008): configuration, learner, kernels and the frozen state."""
