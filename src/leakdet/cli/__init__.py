"""The command line: settings, their help and checks before any work, Hydra, printed tables."""
