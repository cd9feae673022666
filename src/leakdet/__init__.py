"""leakdet: from labelled recordings of pipes to a verdict, leak or no leak, for each new recording."""

__version__ = "0.1.0"
