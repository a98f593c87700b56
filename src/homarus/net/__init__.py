"""The only HTTP client of the program, and where it may go. Imports `core` only: settings come as values."""
