"""homarus: a personal-agent runtime whose folders are its architecture.

Importing this package costs nothing: what it offers is looked up on first use.
"""

__version__ = "0.1.0"
