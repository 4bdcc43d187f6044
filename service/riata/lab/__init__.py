"""Batch algorithms, growing trees and pools: for the command line, estimators and the child process of refits."""
