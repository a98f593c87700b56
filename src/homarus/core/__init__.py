"""Words everyone uses. No I/O, and no import from any other package of homarus."""
