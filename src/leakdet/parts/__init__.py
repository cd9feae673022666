"""Verdicts on any number of recordings, in parts that survive the end of the run."""
