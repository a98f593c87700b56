"""A home looked after by hand: set up, examined, described."""
