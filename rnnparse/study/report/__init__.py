"""The report of a study: results, their significance, the narrative and the page."""

from rnnparse._lazy import public_names

__getattr__, __dir__ = public_names(__name__)
