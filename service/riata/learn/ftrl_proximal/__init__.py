"""FTRL-Proximal (McMahan et al. 2013): configuration, learner and kernels."""
