"""Confirmed recordings → a better model beside the old one, with evidence that it is better."""
