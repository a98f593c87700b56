"""What is wrong with a home, where, and how to mend it. Looking changes nothing; only a fix that was asked for does."""
