"""What leakdet raises when a person can do something about it: one sentence, no traceback at the doors."""


class LeakdetError(Exception):
    """A fault with a remedy. The message says what was found, where, what is allowed and what to do."""


class SettingsError(LeakdetError):
    """A setting is out of range, or settings contradict each other."""


class InputError(LeakdetError):
    """A file, a folder or its contents cannot be used."""
